#include "driver/copies.h"

#include <cstring>
#include <string>

#include "common/settings.h"
#include "driver/devices.h"
#include "driver/private_api.h"
#include "driver/sticky_error.h"

namespace cuda_standin {
namespace {

bool IsPageable(CUdeviceptr pointer) {
  return DeviceOwning(pointer) == nullptr && !PinnedMemory::Get().Contains(reinterpret_cast<const void*>(pointer));
}

const void* Address(CUdeviceptr pointer) { return reinterpret_cast<const void*>(pointer); }

bool IsInAllocation(CUdeviceptr pointer, size_t bytes, const char* what) {
  if (IsAccessible(Address(pointer), bytes)) return true;
  Complain(std::string(what) + " of " + std::to_string(bytes) + " bytes at " + DescribeAddress(pointer) +
           " isn't all in it");
  return false;
}

CUresult Enqueue(CUstream handle, Completion completion, std::function<void()> task) {
  if (const CUresult error = StickyError(); error != CUDA_SUCCESS) return error;
  if (CurrentDevice() < 0) return CUDA_ERROR_INVALID_CONTEXT;
  const std::shared_ptr<Stream> stream = FindStream(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  stream->Push(std::move(task));
  if (completion == Completion::kInStreamOrder) return CUDA_SUCCESS;
  stream->Wait();
  return StickyError();
}

}  // namespace

// As with the real driver, a copy from pageable memory has read it before it returns, and one to pageable memory has
// written it.
CUresult Copy(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream, Completion completion) {
  if (bytes == 0) return CUDA_SUCCESS;
  if (!IsInAllocation(to, bytes, "copy to") || !IsInAllocation(from, bytes, "copy from"))
    return CUDA_ERROR_INVALID_VALUE;
  if (IsPageable(from)) {
    const char* source = static_cast<const char*>(Address(from));
    return Enqueue(stream, completion, [=, staged = std::vector<char>(source, source + bytes)] {
      void* target = ViewForUser(Address(to), bytes, "a copy to the device");
      if (target != nullptr) std::memcpy(target, staged.data(), bytes);
    });
  }
  return Enqueue(stream, IsPageable(to) ? Completion::kBeforeReturn : completion, [=] {
    void* target = ViewForUser(Address(to), bytes, "a copy");
    const void* source = ViewForUser(Address(from), bytes, "a copy");
    if (target != nullptr && source != nullptr) std::memmove(target, source, bytes);
  });
}

CUresult Fill(CUdeviceptr to, size_t pitch, unsigned value, size_t element_bytes, size_t width, size_t height,
              CUstream stream, Completion completion) {
  if (width == 0 || height == 0) return CUDA_SUCCESS;
  const size_t extent = (height - 1) * pitch + width * element_bytes;
  if (!IsInAllocation(to, extent, "memset")) return CUDA_ERROR_INVALID_VALUE;
  return Enqueue(stream, completion, [=] {
    char* target = static_cast<char*>(ViewForUser(Address(to), extent, "a memset"));
    if (target == nullptr) return;
    for (size_t row = 0; row < height; ++row)
      for (size_t column = 0; column < width; ++column)
        std::memcpy(target + row * pitch + column * element_bytes, &value, element_bytes);
  });
}

}  // namespace cuda_standin
