#pragma once

#include <cuda.h>

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>

#include "common/export.h"

namespace cuda_standin {

struct Range {
  CUdeviceptr begin = 0;
  size_t bytes = 0;
};

/// The memory of one device. The program sees addresses that nothing is mapped at, so that its own reads and writes
/// crash; the same memory is mapped a second time for the stand-in's threads.
class DeviceMemory {
 public:
  explicit DeviceMemory(size_t bytes);

  /// Returns 0 when there is no room.
  CUdeviceptr Allocate(size_t bytes);
  bool Free(CUdeviceptr pointer);

  bool Owns(CUdeviceptr pointer) const { return pointer >= base_ && pointer < base_ + size_; }
  std::optional<Range> AllocationOf(CUdeviceptr pointer) const;
  /// Where the stand-in's threads find these bytes; null unless all of them lie in one live allocation.
  void* View(CUdeviceptr pointer, size_t bytes) const;

  size_t size() const { return size_; }
  size_t used() const;

 private:
  struct Block {
    size_t requested = 0;
    size_t reserved = 0;
  };

  const size_t size_;
  CUdeviceptr base_ = 0;
  char* view_ = nullptr;
  mutable std::mutex mutex_;
  std::map<size_t, size_t> free_;
  std::map<size_t, Block> used_;
  size_t used_bytes_ = 0;
};

/// Host memory that CUDA knows: page-locked, registered or managed.
class PinnedMemory {
 public:
  static PinnedMemory& Get();

  void* Allocate(size_t bytes);
  bool Free(void* pointer);
  void Register(void* pointer, size_t bytes);
  bool Unregister(void* pointer);
  bool Contains(const void* pointer) const;

 private:
  struct Block {
    size_t bytes = 0;
    bool ours = false;
  };

  bool Remove(void* pointer, bool ours);

  mutable std::mutex mutex_;
  std::map<const char*, Block> blocks_;
};

}  // namespace cuda_standin
