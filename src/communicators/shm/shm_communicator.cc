#include "communicators/shm/shm_communicator.h"

#include <sched.h>

#include "text.h"

namespace tf_collectives {

ShmCommunicator::ShmCommunicator(const Board& board, int rank, const Options& options)
    : board_(board), rank_(rank), size_(board.size()), options_(options), chunk_bytes_(board.layout().chunk_bytes) {}

Status ShmCommunicator::Run(const Batch& batch) {
  switch (batch.kind) {
    case CollectiveKind::kAllReduce:
      return AllReduce(batch);
    case CollectiveKind::kAllGather:
      return AllGather(batch);
    case CollectiveKind::kBroadcast:
      return Broadcast(batch);
  }
  return {StatusCode::kInternal, "Unknown kind of collective."};
}

Status ShmCommunicator::WaitForAll(Counter counter, uint64_t value) {
  for (int rank = 0; rank < size_; ++rank) TFC_RETURN_IF_ERROR(WaitForRank(rank, counter, value));
  return Status::Ok();
}

Status ShmCommunicator::WaitForRank(int rank, Counter counter, uint64_t value) {
  if (rank == rank_ || (board_.rank(rank).*counter).load(std::memory_order_acquire) >= value) return Status::Ok();
  return SleepUntil(rank, counter, value);
}

Status ShmCommunicator::WaitForSlot(Counter counter, uint64_t chunk) {
  const uint64_t slots = board_.layout().slots;
  return chunk < slots ? Status::Ok() : WaitForAll(counter, chunk - slots + 1);
}

Status ShmCommunicator::SleepUntil(int rank, Counter counter, uint64_t value) {
  const std::atomic<uint64_t>& watched = board_.rank(rank).*counter;
  const auto reached = [&] { return watched.load(std::memory_order_seq_cst) >= value; };
  const auto start = Clock::now();
  do {
    for (int i = 0; i < 64; ++i) {
      if (reached()) return Status::Ok();
      CpuRelax();
    }
    // With more ranks than cores the peer may need this core to get on.
    sched_yield();
  } while (Clock::now() < start + options_.spin);

  const Deadline deadline = options_.timeout.count() > 0 ? Deadline(start + options_.timeout) : std::nullopt;
  Doorbell& doorbell = own().doorbell;
  for (;;) {
    const uint32_t seen = doorbell.count.load(std::memory_order_acquire);
    if (reached()) return Status::Ok();
    if (board_.lost_rank() >= 0) return {StatusCode::kUnavailable, "A rank was lost."};
    if (deadline && Clock::now() >= *deadline) {
      return {StatusCode::kDeadlineExceeded,
              Concat("rank ", rank, " has stood still in the middle of a collective for ",
                     std::chrono::duration<double>(options_.timeout).count(),
                     " s (TFC_TIMEOUT_SECONDS). See whether its process is stopped or its machine is overloaded.")};
    }
    doorbell.Wait(seen, deadline, [&] { return reached() || board_.lost_rank() >= 0; });
  }
}

void ShmCommunicator::Advance(Counter counter, uint64_t value) {
  (own().*counter).store(value, std::memory_order_seq_cst);
  for (int rank = 0; rank < size_; ++rank) {
    if (rank != rank_) board_.rank(rank).doorbell.RingIfAsleep();
  }
}

}  // namespace tf_collectives
