#include "communicators/scatter_gather.h"
#include "communicators/shm/shm_communicator.h"

// All-gather: rank r contributes N_r bytes, which may differ. In step i every rank that has something left puts its
// i-th chunk into its slot, and then copies the other ranks' i-1-th chunks to its outputs. Own data is copied straight
// from input to output. Each rank writes 2 N_r + sum of the others' N bytes, in max(N) / chunk steps.

namespace tf_collectives {
namespace {

/// Where the parts of `source`'s contribution lie in the outputs: one piece per tensor, behind those of the lower
/// ranks.
std::vector<MemoryPiece> PlacesOf(const Batch& batch, int source, bool streaming) {
  std::vector<MemoryPiece> pieces;
  for (const Batch::Segment& segment : batch.segments) {
    size_t offset = 0;
    for (int rank = 0; rank < source; ++rank) offset += segment.rank_bytes[rank];
    char* output = static_cast<char*>(segment.output);
    pieces.push_back({output == nullptr ? nullptr : output + offset, segment.rank_bytes[source], streaming});
  }
  return pieces;
}

}  // namespace

Status ShmCommunicator::AllGather(const Batch& batch) {
  std::vector<size_t> totals(size_, 0);
  size_t sum = 0;
  for (const Batch::Segment& segment : batch.segments) {
    for (int rank = 0; rank < size_; ++rank) totals[rank] += segment.rank_bytes[rank];
  }
  for (size_t total : totals) sum += total;
  const uint64_t chunks = (*std::max_element(totals.begin(), totals.end()) + chunk_bytes_ - 1) / chunk_bytes_;
  const uint64_t first = next_chunk_;
  next_chunk_ += chunks;
  const auto length = [&](int rank, uint64_t chunk) {
    return std::min(chunk_bytes_, totals[rank] - std::min<size_t>(totals[rank], (chunk - first) * chunk_bytes_));
  };

  ScatterGatherCursor own(InputPieces(batch));
  std::vector<ScatterGatherCursor> places;
  places.reserve(size_);
  for (int rank = 0; rank < size_; ++rank) places.emplace_back(PlacesOf(batch, rank, sum >= kStreamingBytes));

  const auto publish = [&](uint64_t chunk) -> Status {
    TFC_RETURN_IF_ERROR(WaitForSlot(&RankBlock::reduced, chunk));
    const size_t bytes = length(rank_, chunk);
    own.Gather(bytes, board_.slot(rank_, chunk));
    Advance(&RankBlock::published, chunk + 1);
    places[rank_].Scatter(bytes, board_.slot(rank_, chunk));
    return Status::Ok();
  };
  const auto take = [&](uint64_t chunk) -> Status {
    // Each rank begins with its neighbour, so that not all read from one slot at once.
    for (int step = 1; step < size_; ++step) {
      const int source = (rank_ + step) % size_;
      TFC_RETURN_IF_ERROR(WaitForRank(source, &RankBlock::published, chunk + 1));
      places[source].Scatter(length(source, chunk), board_.slot(source, chunk));
    }
    Advance(&RankBlock::reduced, chunk + 1);
    Advance(&RankBlock::consumed, chunk + 1);
    return Status::Ok();
  };

  for (uint64_t step = 0; step < chunks + 1; ++step) {
    if (step < chunks) TFC_RETURN_IF_ERROR(publish(first + step));
    if (step >= 1) TFC_RETURN_IF_ERROR(take(first + step - 1));
  }
  return Status::Ok();
}

}  // namespace tf_collectives
