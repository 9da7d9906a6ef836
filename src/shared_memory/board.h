#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "shared_memory/byte_ring.h"
#include "shared_memory/doorbell.h"

namespace tf_collectives {

/// How the segment is divided; rank 0 decides and tells the others when they join.
struct BoardLayout {
  uint32_t size = 1;
  uint32_t slots = 4;
  uint64_t chunk_bytes = 0;
  uint64_t ring_bytes = 0;

  size_t TotalBytes() const;
};

/// What one rank shows the others. Every counter counts chunks since the job began and is written by its owner alone.
struct RankBlock {
  alignas(64) Doorbell doorbell;
  /// Chunks whose input lies in this rank's slots.
  alignas(64) std::atomic<uint64_t> published;
  /// Chunks of which this rank has reduced its slice, after which it no longer reads the others' slots.
  std::atomic<uint64_t> reduced;
  /// Chunks whose results this rank has taken.
  std::atomic<uint64_t> consumed;
  /// Whether the rank has said goodbye, so that its end is no failure.
  std::atomic<uint32_t> departed;
  std::atomic<int32_t> process_id;
};

/// Why a job can't go on.
enum class LossKind : int32_t { kEnded, kDeviceFailed };

/// The shared segment, seen as what lies in it: blocks, message rings, and slots for data.
class Board {
 public:
  Board() = default;
  Board(void* memory, const BoardLayout& layout);

  /// Prepares fresh, zeroed memory; done once, by rank 0.
  void Format();

  int size() const { return static_cast<int>(layout_.size); }
  const BoardLayout& layout() const { return layout_; }
  RankBlock& rank(int rank) const { return ranks_[rank]; }
  ByteRing& to_coordinator(int rank) const { return *Ring(2 * rank); }
  ByteRing& from_coordinator(int rank) const { return *Ring(2 * rank + 1); }
  /// Where `rank` puts its input of the given chunk.
  char* slot(int rank, uint64_t chunk) const {
    return data_ + (static_cast<uint64_t>(rank) * layout_.slots + chunk % layout_.slots) * layout_.chunk_bytes;
  }
  /// Where the ranks put the reduced slices of the given chunk.
  char* result(uint64_t chunk) const { return slot(static_cast<int>(layout_.size), chunk); }

  /// The rank that ended without a goodbye or whose GPU failed, or -1. The first such rank stays.
  int lost_rank() const { return lost_->load(std::memory_order_acquire) / 2 - 1; }
  LossKind loss_kind() const { return static_cast<LossKind>(lost_->load(std::memory_order_acquire) % 2); }
  /// Records a lost rank and wakes everybody.
  void ReportLost(int rank, LossKind kind = LossKind::kEnded) const;
  void RingAll() const;

 private:
  ByteRing* Ring(int index) const;

  BoardLayout layout_;
  /// Twice the lost rank plus one, and the kind of the loss; fresh memory is zero.
  std::atomic<int32_t>* lost_ = nullptr;
  RankBlock* ranks_ = nullptr;
  char* rings_ = nullptr;
  char* data_ = nullptr;
};

}  // namespace tf_collectives
