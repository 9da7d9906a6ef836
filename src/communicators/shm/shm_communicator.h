#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "communicators/communicator.h"
#include "shared_memory/board.h"

namespace tf_collectives {

/// Collectives among the ranks of one machine through shared memory.
///
/// Data passes in chunks. Each rank has a few slots for its input and there are as many for results; chunk c uses slot
/// c modulo their number. Three counters per rank (RankBlock) say how far it is, and nothing else synchronises the
/// ranks: a slot is filled anew when all ranks have reduced what it held, a result when all have consumed it.
class ShmCommunicator : public Communicator {
 public:
  struct Options {
    std::chrono::microseconds spin{50};
    /// How long a peer may stand still in the middle of a collective; zero: for ever.
    Clock::duration timeout{};
  };

  ShmCommunicator(const Board& board, int rank, const Options& options);

  Status Run(const Batch& batch) override;

 private:
  using Counter = std::atomic<uint64_t> RankBlock::*;

  Status AllReduce(const Batch& batch);
  Status AllReduceInOnePhase(const Batch& batch);
  Status AllGather(const Batch& batch);
  Status Broadcast(const Batch& batch);

  /// Waits until the counter of every rank, or of one, has reached `value`.
  Status WaitForAll(Counter counter, uint64_t value);
  Status WaitForRank(int rank, Counter counter, uint64_t value);
  /// Waits until all ranks have left `counter` so far behind them that the slot of `chunk` is free.
  Status WaitForSlot(Counter counter, uint64_t chunk);
  Status SleepUntil(int rank, Counter counter, uint64_t value);
  /// Publishes this rank's progress.
  void Advance(Counter counter, uint64_t value);
  RankBlock& own() const { return board_.rank(rank_); }

  const Board board_;
  const int rank_;
  const int size_;
  const Options options_;
  const size_t chunk_bytes_;
  uint64_t next_chunk_ = 0;
};

}  // namespace tf_collectives
