#pragma once

#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "negotiation/carrier.h"
#include "shared_memory/board.h"

namespace tf_collectives {

/// Carries messages through rings in shared memory. Rank 0's messages to itself don't leave the process.
class ShmCarrier : public Carrier {
 public:
  ShmCarrier(const Board& board, int rank);

  void Send(int to, const std::string& message) override;
  bool Receive(int from, std::string* message) override;
  void Flush() override;
  bool HasUnsent() override;
  uint32_t Events() override { return board_.rank(rank_).doorbell.count.load(std::memory_order_acquire); }
  void Wait(uint32_t events, const Deadline& deadline) override;
  void Wake() override { board_.rank(rank_).doorbell.Ring(); }

 private:
  struct Outgoing {
    ByteRing* ring = nullptr;
    std::string unsent;
  };
  struct Incoming {
    ByteRing* ring = nullptr;
    std::string bytes;
    size_t consumed = 0;
  };

  /// Returns whether the receiver has something new to read.
  bool Push(Outgoing* outgoing);
  void Pull(int from, Incoming* incoming);

  const Board board_;
  const int rank_;
  std::mutex mutex_;
  std::vector<Outgoing> outgoing_;
  std::deque<std::string> to_self_;
  std::vector<Incoming> incoming_;
};

}  // namespace tf_collectives
