#include "communicators/reduction.h"
#include "communicators/scatter_gather.h"
#include "communicators/shm/shm_communicator.h"

// All-reduce of N bytes among P ranks.
//
// Small batches take one phase: every rank publishes its input and reduces all of them by itself. Each rank writes N
// bytes and reads P N, but waits for the others once only.
//
// Large ones pass as chunks through three stages: (1) copy in: a rank puts those parts of its input that others reduce,
// (P-1)/P of it, into its slot; (2) reduce: each rank owns one slice of the chunk and writes the reduction of all
// ranks' values to the result slot; (3) copy out: each rank copies the whole result. Stage s of chunk c runs next to
// stage s-1 of chunk c+1, so that a rank seldom waits for another. Each rank reads N + N (P-1)/P + N bytes, all but the
// first N from the cache.

namespace tf_collectives {
namespace {

constexpr size_t kOnePhaseBytes = 16 << 10;
constexpr size_t kSmallestChunk = 32 << 10;
constexpr size_t kLine = 64;

size_t RoundUp(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

/// Reduces the parts of one stretch of the stream, which may belong to several tensors.
class StretchReducer {
 public:
  StretchReducer(const Batch& batch, int rank, int size)
      : batch_(batch),
        function_(FindReduceFunction(batch.dtype, batch.reduce_op)),
        element_(SizeOf(batch.dtype)),
        rank_(rank),
        sources_(size),
        pointers_(size) {}

  /// Where the stretch lies in each rank's slot; this rank's own values are taken from its input.
  void SetSource(int rank, const char* stretch) { sources_[rank] = stretch; }

  void Reduce(size_t segment, const char* own, size_t bytes, size_t offset, char* destination) {
    for (size_t rank = 0; rank < sources_.size(); ++rank) pointers_[rank] = sources_[rank] + offset;
    pointers_[rank_] = own;
    const Batch::Segment& scales = batch_.segments[segment];
    function_({pointers_.data(), static_cast<int>(pointers_.size()), destination, bytes / element_,
               scales.prescale_factor, scales.postscale_factor});
  }

 private:
  const Batch& batch_;
  const ReduceFunction function_;
  const size_t element_;
  const int rank_;
  std::vector<const char*> sources_;
  std::vector<const void*> pointers_;
};

}  // namespace

Status ShmCommunicator::AllReduce(const Batch& batch) {
  const size_t total = batch.TotalBytes();
  if (total == 0) return Status::Ok();
  if (total <= std::min(kOnePhaseBytes, chunk_bytes_)) return AllReduceInOnePhase(batch);

  // Medium batches are cut finer than large ones, so that the stages overlap there too.
  const size_t chunk_bytes = std::min(chunk_bytes_, std::max(kSmallestChunk, RoundUp(total / 8, 4096)));
  const uint64_t chunks = (total + chunk_bytes - 1) / chunk_bytes;
  const uint64_t first = next_chunk_;
  next_chunk_ += chunks;
  const auto length = [&](uint64_t chunk) { return std::min(chunk_bytes, total - (chunk - first) * chunk_bytes); };
  const auto slice_begin = [&](size_t bytes, int rank) {
    return std::min(bytes, rank * RoundUp((bytes + size_ - 1) / size_, kLine));
  };

  ScatterGatherCursor to_publish(InputPieces(batch)), to_reduce(InputPieces(batch)), to_fill(OutputPieces(batch));
  StretchReducer reducer(batch, rank_, size_);

  const auto copy_in = [&](uint64_t chunk) -> Status {
    TFC_RETURN_IF_ERROR(WaitForSlot(&RankBlock::reduced, chunk));
    const size_t bytes = length(chunk), begin = slice_begin(bytes, rank_), end = slice_begin(bytes, rank_ + 1);
    char* slot = board_.slot(rank_, chunk);
    to_publish.Gather(begin, slot);
    to_publish.Skip(end - begin);
    to_publish.Gather(bytes - end, slot + end);
    Advance(&RankBlock::published, chunk + 1);
    return Status::Ok();
  };
  const auto reduce = [&](uint64_t chunk) -> Status {
    TFC_RETURN_IF_ERROR(WaitForAll(&RankBlock::published, chunk + 1));
    TFC_RETURN_IF_ERROR(WaitForSlot(&RankBlock::consumed, chunk));
    const size_t bytes = length(chunk), begin = slice_begin(bytes, rank_), end = slice_begin(bytes, rank_ + 1);
    for (int rank = 0; rank < size_; ++rank) reducer.SetSource(rank, board_.slot(rank, chunk) + begin);
    char* result = board_.result(chunk) + begin;
    to_reduce.Skip(begin);
    to_reduce.Advance(end - begin, [&](size_t segment, const char* own, size_t count, size_t offset) {
      reducer.Reduce(segment, own, count, offset, result + offset);
    });
    to_reduce.Skip(bytes - end);
    Advance(&RankBlock::reduced, chunk + 1);
    return Status::Ok();
  };
  const auto copy_out = [&](uint64_t chunk) -> Status {
    TFC_RETURN_IF_ERROR(WaitForAll(&RankBlock::reduced, chunk + 1));
    to_fill.Scatter(length(chunk), board_.result(chunk));
    Advance(&RankBlock::consumed, chunk + 1);
    return Status::Ok();
  };

  for (uint64_t step = 0; step < chunks + 2; ++step) {
    if (step < chunks) TFC_RETURN_IF_ERROR(copy_in(first + step));
    if (step >= 1 && step - 1 < chunks) TFC_RETURN_IF_ERROR(reduce(first + step - 1));
    if (step >= 2) TFC_RETURN_IF_ERROR(copy_out(first + step - 2));
  }
  return Status::Ok();
}

Status ShmCommunicator::AllReduceInOnePhase(const Batch& batch) {
  const uint64_t chunk = next_chunk_++;
  const size_t total = batch.TotalBytes();
  TFC_RETURN_IF_ERROR(WaitForSlot(&RankBlock::reduced, chunk));
  ScatterGatherCursor inputs(InputPieces(batch));
  inputs.Gather(total, board_.slot(rank_, chunk));
  Advance(&RankBlock::published, chunk + 1);
  TFC_RETURN_IF_ERROR(WaitForAll(&RankBlock::published, chunk + 1));

  StretchReducer reducer(batch, rank_, size_);
  for (int rank = 0; rank < size_; ++rank) reducer.SetSource(rank, board_.slot(rank, chunk));
  ScatterGatherCursor outputs(OutputPieces(batch));
  outputs.Advance(total, [&](size_t segment, char* output, size_t bytes, size_t offset) {
    reducer.Reduce(segment, board_.slot(rank_, chunk) + offset, bytes, offset, output);
  });
  Advance(&RankBlock::reduced, chunk + 1);
  Advance(&RankBlock::consumed, chunk + 1);
  return Status::Ok();
}

}  // namespace tf_collectives
