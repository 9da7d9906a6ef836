#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tf_collectives {

/// Head of a ring of bytes in shared memory with one writing and one reading thread; the bytes follow it.
/// A stream, not a queue of messages: what doesn't fit is written later.
struct ByteRing {
  alignas(64) std::atomic<uint64_t> written;
  alignas(64) std::atomic<uint64_t> read;
  /// Set by a writer that waits for space. `read` is accessed sequentially consistently, so that either the writer sees
  /// the space that was made or the reader sees that somebody waits for it.
  std::atomic<uint32_t> starved;
  alignas(64) uint64_t capacity;

  char* bytes() { return reinterpret_cast<char*>(this + 1); }

  /// Writes what fits of `size` bytes and returns how much that was.
  size_t Write(const char* data, size_t size);
  /// Reads up to `size` bytes and returns how many there were.
  size_t Read(char* data, size_t size);
  size_t Readable() const { return written.load(std::memory_order_acquire) - read.load(std::memory_order_relaxed); }

  static size_t FootprintFor(size_t capacity) { return sizeof(ByteRing) + capacity; }
};

}  // namespace tf_collectives
