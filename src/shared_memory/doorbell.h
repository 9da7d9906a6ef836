#pragma once

#include <atomic>
#include <cstdint>

#include "shared_memory/futex.h"

namespace tf_collectives {

/// The one place where a rank's runtime thread sleeps. Lies in shared memory; any thread of any rank may ring it.
struct Doorbell {
  std::atomic<uint32_t> count;
  std::atomic<uint32_t> sleeping;

  /// Call after the change that the sleeper shall see. Costs a system call only if somebody sleeps.
  void Ring() {
    count.fetch_add(1, std::memory_order_seq_cst);
    if (sleeping.load(std::memory_order_seq_cst) != 0) FutexWakeAll(&count);
  }

  /// Rings only if somebody sleeps. Enough where the sleeper passed the condition it waits for to Wait, and both the
  /// change before this call and the condition's look at it are sequentially consistent.
  void RingIfAsleep() {
    if (sleeping.load(std::memory_order_seq_cst) != 0) Ring();
  }

  /// Sleeps until the bell has rung since `seen` was read from `count`, or the deadline has passed. Doesn't sleep at
  /// all if `reached()` holds once others can see that this thread is about to sleep.
  template <typename Condition>
  void Wait(uint32_t seen, const Deadline& deadline, const Condition& reached) {
    sleeping.store(1, std::memory_order_seq_cst);
    if (!reached() && count.load(std::memory_order_seq_cst) == seen) FutexWait(&count, seen, deadline);
    sleeping.store(0, std::memory_order_relaxed);
  }
};

}  // namespace tf_collectives
