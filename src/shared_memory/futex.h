#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

namespace tf_collectives {

using Clock = std::chrono::steady_clock;
using Deadline = std::optional<Clock::time_point>;

/// Sleeps while `*word == expected`, until woken or the deadline has passed. May return early.
void FutexWait(const std::atomic<uint32_t>* word, uint32_t expected, const Deadline& deadline);
void FutexWakeAll(const std::atomic<uint32_t>* word);

/// Tells the processor that this is a waiting loop.
inline void CpuRelax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

}  // namespace tf_collectives
