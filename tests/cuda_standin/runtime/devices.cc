// cudaDevice*, cudaGetDevice* and errors.

#include <cstring>

#include "common/call_log.h"
#include "common/settings.h"
#include "runtime/driver.h"

#pragma GCC visibility push(default)

using namespace cuda_standin;

namespace cuda_standin {
namespace {

thread_local cudaError_t last_error = cudaSuccess;

int Attribute(CUdevice_attribute attribute, int device) {
  int value = 0;
  DRIVER(cuDeviceGetAttribute)(&value, attribute, device);
  return value;
}

}  // namespace

cudaError_t Result(CUresult result) {
  const auto error = static_cast<cudaError_t>(result);
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
  return error;
}

cudaError_t LastError() { return last_error != cudaSuccess ? last_error : static_cast<cudaError_t>(StickyError()); }

cudaError_t TakeLastError() {
  const cudaError_t error = LastError();
  last_error = cudaSuccess;
  return error;
}

CUresult EnsureCurrentDevice() {
  if (CurrentDeviceOrdinal() >= 0) return CUDA_SUCCESS;
  if (DeviceCount() == 0) return CUDA_ERROR_NO_DEVICE;
  MakeDeviceCurrent(0);
  return CUDA_SUCCESS;
}

}  // namespace cuda_standin

extern "C" {

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = DeviceCount();
  return *count > 0 ? cudaSuccess : Result(CUDA_ERROR_NO_DEVICE);
}

cudaError_t cudaGetDevice(int* device) {
  if (const CUresult error = EnsureCurrentDevice(); error != CUDA_SUCCESS) return Result(error);
  *device = CurrentDeviceOrdinal();
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= DeviceCount()) return Result(CUDA_ERROR_INVALID_DEVICE);
  MakeDeviceCurrent(device);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return Result(DRIVER(cuDeviceGetAttribute)(value, static_cast<CUdevice_attribute>(attribute), device));
}

cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  return Result(DRIVER(cuDeviceGetPCIBusId)(id, length, device));
}

cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* id) {
  return Result(DRIVER(cuDeviceGetByPCIBusId)(device, id));
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int from, int to) {
  return Result(DRIVER(cuDeviceCanAccessPeer)(can, from, to));
}

cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return cudaSuccess; }

cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig) { return cudaSuccess; }

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return Result(DRIVER(cuCtxGetStreamPriorityRange)(least, greatest));
}

cudaError_t cudaDeviceSynchronize() { RETURN_DRIVER(DRIVER(cuCtxSynchronize)()); }

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  std::memset(properties, 0, sizeof *properties);
  if (const CUresult error = DRIVER(cuDeviceGetName)(properties->name, sizeof properties->name, device))
    return Result(error);
  DRIVER(cuDeviceTotalMem)(&properties->totalGlobalMem, device);
  properties->major = Attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  properties->minor = Attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  properties->multiProcessorCount = Attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
  properties->maxThreadsPerBlock = Attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, device);
  properties->maxThreadsPerMultiProcessor = Attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, device);
  properties->warpSize = Attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE, device);
  properties->sharedMemPerBlock =
      static_cast<size_t>(Attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, device));
  properties->regsPerBlock = Attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, device);
  properties->clockRate = Attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE, device);
  properties->pciBusID = Attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, device);
  properties->unifiedAddressing = 1;
  constexpr CUdevice_attribute kGrid[] = {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y,
                                          CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z};
  constexpr CUdevice_attribute kBlock[] = {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y,
                                           CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z};
  for (int axis = 0; axis < 3; ++axis) {
    properties->maxGridSize[axis] = Attribute(kGrid[axis], device);
    properties->maxThreadsDim[axis] = Attribute(kBlock[axis], device);
  }
  return cudaSuccess;
}

cudaError_t cudaGetLastError() { return TakeLastError(); }

cudaError_t cudaPeekAtLastError() { return LastError(); }

const char* cudaGetErrorName(cudaError_t error) {
  const char* text = nullptr;
  DRIVER(cuGetErrorName)(static_cast<CUresult>(error), &text);
  return text == nullptr ? "an error that the CUDA stand-in doesn't know" : text;
}

const char* cudaGetErrorString(cudaError_t error) {
  const char* text = nullptr;
  DRIVER(cuGetErrorString)(static_cast<CUresult>(error), &text);
  return text == nullptr ? "an error that the CUDA stand-in doesn't know" : text;
}

}  // extern "C"
