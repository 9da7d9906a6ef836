#include "negotiation/shm_carrier.h"

#include <cstring>

namespace tf_collectives {

ShmCarrier::ShmCarrier(const Board& board, int rank)
    : board_(board), rank_(rank), outgoing_(board.size()), incoming_(board.size()) {
  for (int other = 0; other < board.size(); ++other) {
    if (other == rank || (rank != 0 && other != 0)) continue;
    outgoing_[other].ring = rank == 0 ? &board.from_coordinator(other) : &board.to_coordinator(rank);
    incoming_[other].ring = rank == 0 ? &board.to_coordinator(other) : &board.from_coordinator(rank);
  }
}

void ShmCarrier::Send(int to, const std::string& message) {
  if (to == rank_) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      to_self_.push_back(message);
    }
    Wake();
    return;
  }
  bool news;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto length = static_cast<uint32_t>(message.size());
    std::string& unsent = outgoing_[to].unsent;
    unsent.append(reinterpret_cast<const char*>(&length), sizeof(length));
    unsent.append(message);
    news = Push(&outgoing_[to]);
  }
  if (news) board_.rank(to).doorbell.Ring();
}

bool ShmCarrier::Push(Outgoing* outgoing) {
  std::string& unsent = outgoing->unsent;
  size_t sent = outgoing->ring->Write(unsent.data(), unsent.size());
  if (sent < unsent.size()) {
    // The reader wakes this rank when it has made space. Looking again after saying so closes the gap in which it made
    // space without knowing.
    outgoing->ring->starved.store(1, std::memory_order_seq_cst);
    sent += outgoing->ring->Write(unsent.data() + sent, unsent.size() - sent);
  }
  unsent.erase(0, sent);
  return sent > 0;
}

void ShmCarrier::Flush() {
  for (int to = 0; to < board_.size(); ++to) {
    bool news = false;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!outgoing_[to].unsent.empty()) news = Push(&outgoing_[to]);
    }
    if (news) board_.rank(to).doorbell.Ring();
  }
}

bool ShmCarrier::HasUnsent() {
  std::lock_guard<std::mutex> lock(mutex_);
  for (const Outgoing& outgoing : outgoing_) {
    if (!outgoing.unsent.empty()) return true;
  }
  return false;
}

void ShmCarrier::Pull(int from, Incoming* incoming) {
  const size_t readable = incoming->ring->Readable();
  if (readable == 0) return;
  std::string& bytes = incoming->bytes;
  bytes.erase(0, incoming->consumed);
  incoming->consumed = 0;
  const size_t had = bytes.size();
  bytes.resize(had + readable);
  incoming->ring->Read(bytes.data() + had, readable);
  if (incoming->ring->starved.exchange(0, std::memory_order_seq_cst) != 0) board_.rank(from).doorbell.Ring();
}

bool ShmCarrier::Receive(int from, std::string* message) {
  if (from == rank_) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (to_self_.empty()) return false;
    *message = std::move(to_self_.front());
    to_self_.pop_front();
    return true;
  }
  Incoming& incoming = incoming_[from];
  // A first look at what is there already, a second after reading more.
  for (int look = 0; look < 2; ++look) {
    const size_t available = incoming.bytes.size() - incoming.consumed;
    uint32_t length = 0;
    if (available >= sizeof(length)) {
      std::memcpy(&length, incoming.bytes.data() + incoming.consumed, sizeof(length));
      if (available - sizeof(length) >= length) {
        message->assign(incoming.bytes, incoming.consumed + sizeof(length), length);
        incoming.consumed += sizeof(length) + length;
        return true;
      }
    }
    if (look == 0) Pull(from, &incoming);
  }
  return false;
}

void ShmCarrier::Wait(uint32_t events, const Deadline& deadline) {
  board_.rank(rank_).doorbell.Wait(events, deadline, [] { return false; });
}

}  // namespace tf_collectives
