#include "shared_memory/board.h"

namespace tf_collectives {
namespace {

constexpr size_t kHeaderBytes = 64;
constexpr size_t kPage = 4096;

size_t RoundUp(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

size_t RingFootprint(const BoardLayout& layout) { return RoundUp(ByteRing::FootprintFor(layout.ring_bytes), 64); }

size_t DataOffset(const BoardLayout& layout) {
  return RoundUp(kHeaderBytes + layout.size * (sizeof(RankBlock) + 2 * RingFootprint(layout)), kPage);
}

}  // namespace

size_t BoardLayout::TotalBytes() const { return DataOffset(*this) + (uint64_t{size} + 1) * slots * chunk_bytes; }

Board::Board(void* memory, const BoardLayout& layout) : layout_(layout) {
  char* base = static_cast<char*>(memory);
  lost_ = reinterpret_cast<std::atomic<int32_t>*>(base);
  ranks_ = reinterpret_cast<RankBlock*>(base + kHeaderBytes);
  rings_ = base + kHeaderBytes + layout.size * sizeof(RankBlock);
  data_ = base + DataOffset(layout);
}

void Board::Format() {
  for (int i = 0; i < 2 * size(); ++i) Ring(i)->capacity = layout_.ring_bytes;
}

void Board::ReportLost(int rank, LossKind kind) const {
  int32_t none = 0;
  lost_->compare_exchange_strong(none, 2 * (rank + 1) + static_cast<int32_t>(kind), std::memory_order_acq_rel);
  RingAll();
}

void Board::RingAll() const {
  for (int rank = 0; rank < size(); ++rank) ranks_[rank].doorbell.Ring();
}

ByteRing* Board::Ring(int index) const { return reinterpret_cast<ByteRing*>(rings_ + index * RingFootprint(layout_)); }

}  // namespace tf_collectives
