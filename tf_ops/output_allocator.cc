#include "output_allocator.h"

#include <sys/mman.h>

#include <map>
#include <mutex>
#include <unordered_map>

#include "tensorflow/core/framework/allocator.h"
#include "tf_collectives/runtime.h"

namespace tf_collectives {
namespace {

constexpr size_t kSmallestBytes = 256 << 10;
constexpr size_t kHugePage = 2 << 20;

/// Keeps freed blocks, up to TFC_OUTPUT_CACHE_BYTES, for outputs of about the same size.
class OutputAllocator : public tensorflow::Allocator {
 public:
  // Never destroyed, because tensors may outlive everything else.
  static OutputAllocator* Get() {
    static auto* allocator = new OutputAllocator;
    return allocator;
  }

  std::string Name() override { return "tf_collectives_outputs"; }

  void* AllocateRaw(size_t, size_t bytes) override {
    const size_t unit = bytes >= kHugePage ? kHugePage : 4096;
    const size_t rounded = (bytes + unit - 1) / unit * unit;
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = free_.lower_bound(rounded);
    if (found != free_.end() && found->first <= rounded + rounded / 4) {
      const auto [block_bytes, block] = *found;
      free_.erase(found);
      free_bytes_ -= block_bytes;
      used_[block] = block_bytes;
      return block;
    }
    void* block = MapAligned(rounded, unit);
    if (block != nullptr) used_[block] = rounded;
    return block;
  }

  void DeallocateRaw(void* block) override {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto used = used_.find(block);
    free_.emplace(used->second, block);
    free_bytes_ += used->second;
    used_.erase(used);
    const auto limit = static_cast<size_t>(Runtime::Get().OutputCacheBytes());
    while (free_bytes_ > limit) {
      const auto smallest = free_.begin();
      free_bytes_ -= smallest->first;
      munmap(smallest->second, smallest->first);
      free_.erase(smallest);
    }
  }

 private:
  /// Fresh memory that starts at a multiple of `alignment`, so that huge pages fit.
  static void* MapAligned(size_t bytes, size_t alignment) {
    void* mapped = mmap(nullptr, bytes + alignment, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return nullptr;
    char* const start = static_cast<char*>(mapped);
    char* const block = start + (alignment - reinterpret_cast<uintptr_t>(start) % alignment) % alignment;
    if (block != start) munmap(start, static_cast<size_t>(block - start));
    munmap(block + bytes, static_cast<size_t>(start + alignment - block));
    madvise(block, bytes, MADV_HUGEPAGE);
    return block;
  }

  std::mutex mutex_;
  std::multimap<size_t, void*> free_;
  size_t free_bytes_ = 0;
  std::unordered_map<void*, size_t> used_;
};

}  // namespace

absl::Status AllocateCpuOutput(tensorflow::OpKernelContext* context, int index, const tensorflow::TensorShape& shape,
                               tensorflow::Tensor** output) {
  const tensorflow::DataType dtype = context->expected_output_dtype(index);
  const size_t bytes = static_cast<size_t>(shape.num_elements()) * tensorflow::DataTypeSize(dtype);
  if (bytes < kSmallestBytes) return context->allocate_output(index, shape, output);
  tensorflow::Tensor tensor(OutputAllocator::Get(), dtype, shape);
  if (!tensor.IsInitialized()) {
    return absl::ResourceExhaustedError("cannot allocate the output of " + std::to_string(bytes) +
                                        " bytes. Free memory or use smaller tensors.");
  }
  context->set_output(index, tensor);
  *output = context->mutable_output(index);
  return absl::OkStatus();
}

}  // namespace tf_collectives
