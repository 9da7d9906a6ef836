#include "shared_memory/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace tf_collectives {

void FutexWait(const std::atomic<uint32_t>* word, uint32_t expected, const Deadline& deadline) {
  timespec until{};
  if (deadline) {
    const auto since_epoch = std::chrono::duration_cast<std::chrono::nanoseconds>(deadline->time_since_epoch()).count();
    until.tv_sec = since_epoch / 1000000000;
    until.tv_nsec = since_epoch % 1000000000;
  }
  // FUTEX_WAIT_BITSET takes an absolute time of CLOCK_MONOTONIC, which is what steady_clock counts. The operation isn't
  // marked private because the word lies in memory that several processes map.
  syscall(SYS_futex, word, FUTEX_WAIT_BITSET, expected, deadline ? &until : nullptr, nullptr, FUTEX_BITSET_MATCH_ANY);
}

void FutexWakeAll(const std::atomic<uint32_t>* word) {
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace tf_collectives
