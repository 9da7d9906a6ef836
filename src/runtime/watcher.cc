#include "runtime/watcher.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

namespace tf_collectives {

Watcher::Watcher(const Board& board, std::vector<Peer> peers)
    : board_(board), peers_(std::move(peers)), stop_(eventfd(0, EFD_CLOEXEC)), thread_([this] { Watch(); }) {}

Watcher::~Watcher() {
  const uint64_t one = 1;
  while (write(stop_.get(), &one, sizeof(one)) < 0 && errno == EINTR) {
  }
  thread_.join();
}

void Watcher::CloseDescriptors() {
  for (Peer& peer : peers_) {
    peer.socket.Close();
    peer.process.Close();
  }
  stop_.Close();
}

void Watcher::Watch() {
  // Two entries per peer: its socket and its process. poll() ignores entries with a negative descriptor.
  std::vector<pollfd> entries = {{stop_.get(), POLLIN, 0}};
  for (const Peer& peer : peers_) {
    entries.push_back({peer.socket.get(), POLLIN, 0});
    entries.push_back({peer.process.get(), POLLIN, 0});
  }
  for (;;) {
    if (poll(entries.data(), entries.size(), -1) < 0) continue;
    if (entries[0].revents != 0) return;
    for (size_t i = 0; i < peers_.size(); ++i) {
      pollfd& socket = entries[1 + 2 * i];
      pollfd& process = entries[2 + 2 * i];
      if (socket.revents == 0 && process.revents == 0) continue;
      socket.fd = process.fd = -1;
      if (board_.rank(peers_[i].rank).departed.load() == 0) board_.ReportLost(peers_[i].rank);
    }
  }
}

}  // namespace tf_collectives
