#include "shared_memory/byte_ring.h"

#include <algorithm>
#include <cstring>

namespace tf_collectives {

size_t ByteRing::Write(const char* data, size_t size) {
  const uint64_t position = written.load(std::memory_order_relaxed);
  const size_t space = capacity - (position - read.load(std::memory_order_seq_cst));
  const size_t count = std::min(size, space);
  const size_t offset = position % capacity;
  const size_t until_wrap = std::min<size_t>(count, capacity - offset);
  std::memcpy(bytes() + offset, data, until_wrap);
  std::memcpy(bytes(), data + until_wrap, count - until_wrap);
  written.store(position + count, std::memory_order_release);
  return count;
}

size_t ByteRing::Read(char* data, size_t size) {
  const uint64_t position = read.load(std::memory_order_relaxed);
  const size_t count = std::min<size_t>(size, written.load(std::memory_order_acquire) - position);
  const size_t offset = position % capacity;
  const size_t until_wrap = std::min<size_t>(count, capacity - offset);
  std::memcpy(data, bytes() + offset, until_wrap);
  std::memcpy(data + until_wrap, bytes(), count - until_wrap);
  read.store(position + count, std::memory_order_seq_cst);
  return count;
}

}  // namespace tf_collectives
