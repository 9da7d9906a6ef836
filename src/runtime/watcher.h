#pragma once

#include <thread>
#include <vector>

#include "bootstrap/rendezvous.h"

namespace tf_collectives {

/// Sleeps until a peer's process ends, and tells everybody if that was without a farewell.
class Watcher {
 public:
  Watcher(const Board& board, std::vector<Peer> peers);
  ~Watcher();

  /// In a forked child: closes the descriptors, so that the parent's end shows, and leaves the rest alone.
  void CloseDescriptors();

 private:
  void Watch();

  const Board board_;
  std::vector<Peer> peers_;
  FileDescriptor stop_;
  std::thread thread_;
};

}  // namespace tf_collectives
