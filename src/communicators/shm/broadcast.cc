#include <cstring>

#include "communicators/scatter_gather.h"
#include "communicators/shm/shm_communicator.h"

// Broadcast of N bytes: the root puts one chunk after the other into its slots, the others copy them out. The root is
// at most as many chunks ahead as there are slots. The root reads and writes N bytes, and so does every other rank.

namespace tf_collectives {

Status ShmCommunicator::Broadcast(const Batch& batch) {
  const size_t total = batch.TotalBytes();
  const uint64_t chunks = (total + chunk_bytes_ - 1) / chunk_bytes_;
  const uint64_t first = next_chunk_;
  next_chunk_ += chunks;
  const bool is_root = rank_ == batch.root_rank;

  for (const Batch::Segment& segment : batch.segments) {
    const bool apart = is_root && segment.output != nullptr && segment.output != segment.input;
    if (apart && segment.bytes > 0) std::memcpy(segment.output, segment.input, segment.bytes);
  }
  ScatterGatherCursor cursor(is_root ? InputPieces(batch) : OutputPieces(batch));
  for (uint64_t chunk = first; chunk < first + chunks; ++chunk) {
    const size_t bytes = std::min(chunk_bytes_, total - (chunk - first) * chunk_bytes_);
    if (is_root) {
      TFC_RETURN_IF_ERROR(WaitForSlot(&RankBlock::reduced, chunk));
      cursor.Gather(bytes, board_.slot(rank_, chunk));
      Advance(&RankBlock::published, chunk + 1);
    } else {
      TFC_RETURN_IF_ERROR(WaitForRank(batch.root_rank, &RankBlock::published, chunk + 1));
      cursor.Scatter(bytes, board_.slot(batch.root_rank, chunk));
    }
    Advance(&RankBlock::reduced, chunk + 1);
    Advance(&RankBlock::consumed, chunk + 1);
  }
  return Status::Ok();
}

}  // namespace tf_collectives
