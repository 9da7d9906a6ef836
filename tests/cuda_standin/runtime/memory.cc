// cudaMalloc, cudaMemcpy and their like.

#include <cstring>

#include "runtime/driver.h"

#pragma GCC visibility push(default)

using namespace cuda_standin;

extern "C" {

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  RETURN_DRIVER(DRIVER(cuMemAlloc)(reinterpret_cast<CUdeviceptr*>(pointer), bytes));
}

cudaError_t cudaFree(void* pointer) { RETURN_DRIVER(DRIVER(cuMemFree)(Driver(pointer))); }

cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t stream) {
  RETURN_DRIVER(DRIVER(cuMemAllocAsync)(reinterpret_cast<CUdeviceptr*>(pointer), bytes, Driver(stream)));
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  RETURN_DRIVER(DRIVER(cuMemFreeAsync)(Driver(pointer), Driver(stream)));
}

cudaError_t cudaMallocHost(void** pointer, size_t bytes) { RETURN_DRIVER(DRIVER(cuMemHostAlloc)(pointer, bytes, 0)); }

cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned flags) {
  RETURN_DRIVER(DRIVER(cuMemHostAlloc)(pointer, bytes, flags));
}

cudaError_t cudaFreeHost(void* pointer) { RETURN_DRIVER(DRIVER(cuMemFreeHost)(pointer)); }

cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned flags) {
  RETURN_DRIVER(DRIVER(cuMemHostRegister)(pointer, bytes, flags));
}

cudaError_t cudaHostUnregister(void* pointer) { RETURN_DRIVER(DRIVER(cuMemHostUnregister)(pointer)); }

cudaError_t cudaHostGetDevicePointer(void** device_pointer, void* pointer, unsigned flags) {
  RETURN_DRIVER(DRIVER(cuMemHostGetDevicePointer)(reinterpret_cast<CUdeviceptr*>(device_pointer), pointer, flags));
}

cudaError_t cudaHostGetFlags(unsigned* flags, void* pointer) {
  RETURN_DRIVER(DRIVER(cuMemHostGetFlags)(flags, pointer));
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) { RETURN_DRIVER(DRIVER(cuMemGetInfo)(free, total)); }

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  std::memset(attributes, 0, sizeof *attributes);
  unsigned type = 0;
  attributes->device = DeviceOfPointer(pointer);
  if (DRIVER(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, Driver(pointer)) != CUDA_SUCCESS) {
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->hostPointer = const_cast<void*>(pointer);
    return cudaSuccess;
  }
  attributes->type = attributes->device >= 0 ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
  attributes->devicePointer = const_cast<void*>(pointer);
  if (attributes->device < 0) attributes->hostPointer = const_cast<void*>(pointer);
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  RETURN_DRIVER(DRIVER(cuMemcpy)(Driver(to), Driver(from), bytes));
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  RETURN_DRIVER(DRIVER(cuMemcpyAsync)(Driver(to), Driver(from), bytes, Driver(stream)));
}

cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes, cudaStream_t stream) {
  RETURN_DRIVER(DRIVER(cuMemcpyAsync)(Driver(to), Driver(from), bytes, Driver(stream)));
}

cudaError_t cudaMemset(void* to, int value, size_t count) {
  RETURN_DRIVER(DRIVER(cuMemsetD8)(Driver(to), static_cast<unsigned char>(value), count));
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t count, cudaStream_t stream) {
  RETURN_DRIVER(DRIVER(cuMemsetD8Async)(Driver(to), static_cast<unsigned char>(value), count, Driver(stream)));
}

cudaError_t cudaMemset2DAsync(void* to, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream) {
  RETURN_DRIVER(
      DRIVER(cuMemsetD2D8Async)(Driver(to), pitch, static_cast<unsigned char>(value), width, height, Driver(stream)));
}

}  // extern "C"
