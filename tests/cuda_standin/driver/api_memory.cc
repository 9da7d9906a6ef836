// cuMem* and cuPointerGetAttribute.

#include "common/call_log.h"
#include "driver/copies.h"
#include "driver/devices.h"
#include "driver/private_api.h"

#pragma GCC visibility push(default)

using namespace cuda_standin;

namespace {

unsigned long long Id(CUstream handle) { return IsLogging() ? IdOfStream(handle) : 0; }

CUdeviceptr Address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

CUresult Allocate(CUdeviceptr* pointer, size_t bytes) {
  if (CurrentDevice() < 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  *pointer = AllocateOn(CurrentDevice(), bytes);
  return *pointer == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult AllocatePinned(void** pointer, size_t bytes) {
  *pointer = PinnedMemory::Get().Allocate(bytes);
  return *pointer == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuMemAlloc(CUdeviceptr* pointer, size_t bytes) {
  STANDIN_ENTER("bytes", bytes);
  return Allocate(pointer, bytes);
}

CUresult cuMemAllocAsync(CUdeviceptr* pointer, size_t bytes, CUstream stream) {
  STANDIN_ENTER("bytes", bytes, "stream", Id(stream));
  return Allocate(pointer, bytes);
}

CUresult cuMemFree(CUdeviceptr pointer) {
  STANDIN_ENTER("pointer", pointer);
  if (pointer == 0) return CUDA_SUCCESS;
  Device* device = DeviceOwning(pointer);
  if (device == nullptr)
    return PinnedMemory::Get().Free(reinterpret_cast<void*>(pointer)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  for (const auto& stream : StreamsOf(device->ordinal)) stream->Wait();
  return device->memory.Free(pointer) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream) {
  STANDIN_ENTER("pointer", pointer, "stream", Id(stream));
  if (DeviceOfPointer(reinterpret_cast<void*>(pointer)) < 0) return CUDA_ERROR_INVALID_VALUE;
  if (DeviceOfStream(stream) < 0) return CUDA_ERROR_INVALID_HANDLE;
  PushTask(stream, [pointer] { FreeDeviceMemory(pointer); });
  return CUDA_SUCCESS;
}

CUresult cuMemAllocManaged(CUdeviceptr* pointer, size_t bytes, unsigned) {
  STANDIN_ENTER("bytes", bytes);
  return AllocatePinned(reinterpret_cast<void**>(pointer), bytes);
}

CUresult cuMemAllocHost(void** pointer, size_t bytes) {
  STANDIN_ENTER("bytes", bytes);
  return AllocatePinned(pointer, bytes);
}

CUresult cuMemHostAlloc(void** pointer, size_t bytes, unsigned) {
  STANDIN_ENTER("bytes", bytes);
  return AllocatePinned(pointer, bytes);
}

CUresult cuMemFreeHost(void* pointer) {
  STANDIN_ENTER("pointer", pointer);
  return PinnedMemory::Get().Free(pointer) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemHostRegister(void* pointer, size_t bytes, unsigned) {
  STANDIN_ENTER("pointer", pointer, "bytes", bytes);
  PinnedMemory::Get().Register(pointer, bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void* pointer) {
  STANDIN_ENTER("pointer", pointer);
  return PinnedMemory::Get().Unregister(pointer) ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr* device_pointer, void* pointer, unsigned) {
  STANDIN_ENTER("pointer", pointer);
  if (!PinnedMemory::Get().Contains(pointer)) return CUDA_ERROR_INVALID_VALUE;
  *device_pointer = Address(pointer);
  return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned* flags, void* pointer) {
  STANDIN_ENTER("pointer", pointer);
  if (!PinnedMemory::Get().Contains(pointer)) return CUDA_ERROR_INVALID_VALUE;
  *flags = 0;
  return CUDA_SUCCESS;
}

CUresult cuMemGetInfo(size_t* free, size_t* total) {
  STANDIN_ENTER();
  const Device* device = DeviceAt(CurrentDevice());
  if (device == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *total = device->memory.size();
  *free = *total - device->memory.used();
  return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange(CUdeviceptr* begin, size_t* bytes, CUdeviceptr pointer) {
  STANDIN_ENTER("pointer", pointer);
  const Device* device = DeviceOwning(pointer);
  const std::optional<Range> range = device == nullptr ? std::nullopt : device->memory.AllocationOf(pointer);
  if (!range) return CUDA_ERROR_NOT_FOUND;
  if (begin != nullptr) *begin = range->begin;
  if (bytes != nullptr) *bytes = range->bytes;
  return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr pointer) {
  STANDIN_ENTER("pointer", pointer, "attribute", attribute);
  Device* owner = DeviceOwning(pointer);
  if (owner == nullptr && !PinnedMemory::Get().Contains(reinterpret_cast<void*>(pointer)))
    return CUDA_ERROR_INVALID_VALUE;
  Device* device = owner == nullptr ? DeviceAt(CurrentDevice()) : owner;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *static_cast<CUcontext*>(value) = device == nullptr ? nullptr : device->Context();
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(value) = owner == nullptr ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      *static_cast<CUdeviceptr*>(value) = pointer;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *static_cast<int*>(value) = 0;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(value) = device == nullptr ? 0 : device->ordinal;
      return CUDA_SUCCESS;
    default:
      return static_cast<CUresult>(
          cuda_standin_missing("libcuda.so.1", "cuPointerGetAttribute of this attribute", CUDA_ERROR_NOT_SUPPORTED));
  }
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  STANDIN_ENTER("bytes", bytes);
  return Copy(to, from, bytes, nullptr, Completion::kBeforeReturn);
}

CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t bytes) {
  STANDIN_ENTER("bytes", bytes);
  return Copy(to, Address(from), bytes, nullptr, Completion::kBeforeReturn);
}

CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, size_t bytes) {
  STANDIN_ENTER("bytes", bytes);
  return Copy(Address(to), from, bytes, nullptr, Completion::kBeforeReturn);
}

CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  STANDIN_ENTER("bytes", bytes);
  return Copy(to, from, bytes, nullptr, Completion::kBeforeReturn);
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  STANDIN_ENTER("bytes", bytes, "stream", Id(stream));
  return Copy(to, from, bytes, stream, Completion::kInStreamOrder);
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  STANDIN_ENTER("bytes", bytes, "stream", Id(stream));
  return Copy(to, Address(from), bytes, stream, Completion::kInStreamOrder);
}

CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  STANDIN_ENTER("bytes", bytes, "stream", Id(stream));
  return Copy(Address(to), from, bytes, stream, Completion::kInStreamOrder);
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  STANDIN_ENTER("bytes", bytes, "stream", Id(stream));
  return Copy(to, from, bytes, stream, Completion::kInStreamOrder);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes, CUstream stream) {
  STANDIN_ENTER("bytes", bytes, "stream", Id(stream));
  return Copy(to, from, bytes, stream, Completion::kInStreamOrder);
}

CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, size_t count) {
  STANDIN_ENTER("bytes", count);
  return Fill(to, 0, value, 1, count, 1, nullptr, Completion::kBeforeReturn);
}

CUresult cuMemsetD32(CUdeviceptr to, unsigned value, size_t count) {
  STANDIN_ENTER("bytes", 4 * count);
  return Fill(to, 0, value, 4, count, 1, nullptr, Completion::kBeforeReturn);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  STANDIN_ENTER("bytes", count, "stream", Id(stream));
  return Fill(to, 0, value, 1, count, 1, stream, Completion::kInStreamOrder);
}

CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
  STANDIN_ENTER("bytes", 2 * count, "stream", Id(stream));
  return Fill(to, 0, value, 2, count, 1, stream, Completion::kInStreamOrder);
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  STANDIN_ENTER("bytes", 4 * count, "stream", Id(stream));
  return Fill(to, 0, value, 4, count, 1, stream, Completion::kInStreamOrder);
}

CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height,
                           CUstream stream) {
  STANDIN_ENTER("bytes", width * height, "stream", Id(stream));
  return Fill(to, pitch, value, 1, width, height, stream, Completion::kInStreamOrder);
}

}  // extern "C"
