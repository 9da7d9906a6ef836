#include "communicators/scatter_gather.h"

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace tf_collectives {

void ScatterGatherCursor::Gather(size_t bytes, char* destination) {
  Advance(bytes, [destination](size_t, const char* source, size_t count, size_t offset) {
    std::memcpy(destination + offset, source, count);
  });
}

void ScatterGatherCursor::Scatter(size_t bytes, const char* source) {
  Advance(bytes, [this, source](size_t piece, char* destination, size_t count, size_t offset) {
    if (destination == nullptr) return;
    if (pieces_[piece].streaming) {
      CopyStreaming(destination, source + offset, count);
    } else {
      std::memcpy(destination, source + offset, count);
    }
  });
}

void ScatterGatherCursor::Skip(size_t bytes) {
  Advance(bytes, [](size_t, const char*, size_t, size_t) {});
}

std::vector<MemoryPiece> InputPieces(const Batch& batch) {
  std::vector<MemoryPiece> pieces;
  pieces.reserve(batch.segments.size());
  for (const Batch::Segment& segment : batch.segments) {
    pieces.push_back({static_cast<char*>(const_cast<void*>(segment.input)), segment.bytes});
  }
  return pieces;
}

std::vector<MemoryPiece> OutputPieces(const Batch& batch) {
  const bool large = batch.TotalBytes() >= kStreamingBytes;
  std::vector<MemoryPiece> pieces;
  pieces.reserve(batch.segments.size());
  for (const Batch::Segment& segment : batch.segments) {
    pieces.push_back({static_cast<char*>(segment.output), segment.bytes, large && segment.output != segment.input});
  }
  return pieces;
}

void CopyStreaming(char* destination, const char* source, size_t bytes) {
#if defined(__x86_64__)
  constexpr size_t kLine = 64;
  const size_t head = std::min(bytes, (kLine - reinterpret_cast<uintptr_t>(destination) % kLine) % kLine);
  std::memcpy(destination, source, head);
  size_t position = head;
  for (; position + kLine <= bytes; position += kLine) {
    const auto* from = reinterpret_cast<const __m128i*>(source + position);
    auto* to = reinterpret_cast<__m128i*>(destination + position);
    const __m128i a = _mm_loadu_si128(from), b = _mm_loadu_si128(from + 1), c = _mm_loadu_si128(from + 2),
                  d = _mm_loadu_si128(from + 3);
    _mm_stream_si128(to, a);
    _mm_stream_si128(to + 1, b);
    _mm_stream_si128(to + 2, c);
    _mm_stream_si128(to + 3, d);
  }
  std::memcpy(destination + position, source + position, bytes - position);
  _mm_sfence();
#else
  std::memcpy(destination, source, bytes);
#endif
}

}  // namespace tf_collectives
