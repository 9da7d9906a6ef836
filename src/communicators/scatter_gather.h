#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "communicators/communicator.h"

namespace tf_collectives {

/// Results of batches from this size on don't fit the cache, and are written around it unless they replace the input,
/// which has just been read.
constexpr size_t kStreamingBytes = 4 << 20;

struct MemoryPiece {
  char* data = nullptr;
  size_t bytes = 0;
  /// Whether Scatter shall bypass the cache.
  bool streaming = false;
};

/// Walks a list of pieces of memory as if they were one stream of bytes.
class ScatterGatherCursor {
 public:
  explicit ScatterGatherCursor(std::vector<MemoryPiece> pieces) : pieces_(std::move(pieces)) {}

  /// Calls `visit(piece index, pointer or null, bytes, offset from here)` for each contiguous part of the next `bytes`.
  template <typename Visitor>
  void Advance(size_t bytes, const Visitor& visit) {
    for (size_t done = 0; done < bytes;) {
      const MemoryPiece& piece = pieces_[index_];
      const size_t count = std::min(bytes - done, piece.bytes - offset_);
      if (count > 0) visit(index_, piece.data == nullptr ? nullptr : piece.data + offset_, count, done);
      done += count;
      offset_ += count;
      if (offset_ == piece.bytes) {
        ++index_;
        offset_ = 0;
      }
    }
  }

  /// Copies the next `bytes` of the stream to `destination`.
  void Gather(size_t bytes, char* destination);
  /// Copies `bytes` from `source` to where the stream continues; skips pieces without memory.
  void Scatter(size_t bytes, const char* source);
  void Skip(size_t bytes);

 private:
  std::vector<MemoryPiece> pieces_;
  size_t index_ = 0;
  size_t offset_ = 0;
};

/// The inputs and outputs of a batch, one piece per segment.
std::vector<MemoryPiece> InputPieces(const Batch& batch);
std::vector<MemoryPiece> OutputPieces(const Batch& batch);

/// memcpy with stores that go around the cache.
void CopyStreaming(char* destination, const char* source, size_t bytes);

}  // namespace tf_collectives
