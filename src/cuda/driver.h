#pragma once

#include <cstddef>
#include <string>

#include "tf_collectives/status.h"

// Our own declarations of the CUDA driver API, because neither its headers nor its library are there when this is
// compiled. A test compares them with the real ones. The handles are declared outside of the namespace, as cuda.h does,
// so that they are the same types.

using CUcontext = struct CUctx_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;

namespace tf_collectives::cuda {

using CUdevice = int;
using CUdeviceptr = unsigned long long;

struct CUuuid {
  char bytes[16];
};

/// The few values that the code decides by; all others get their names from the driver.
enum CUresult : unsigned {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_DEINITIALIZED = 4,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_INVALID_IMAGE = 200,
  CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
  CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
  CUDA_ERROR_NOT_READY = 600,
};

enum CUdevice_attribute : unsigned {
  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
};

constexpr unsigned CU_STREAM_NON_BLOCKING = 1;
constexpr unsigned CU_EVENT_DEFAULT = 0;
constexpr unsigned CU_EVENT_DISABLE_TIMING = 2;

// clang-format off
/// Every function of the driver that is called, as FUNCTION(symbol, arguments...). All of them return CUresult.
#define TFC_CUDA_DRIVER_FUNCTIONS(FUNCTION)                                                        \
  FUNCTION(cuInit, unsigned flags)                                                                 \
  FUNCTION(cuDriverGetVersion, int* version)                                                       \
  FUNCTION(cuGetErrorName, CUresult error, const char** name)                                      \
  FUNCTION(cuGetErrorString, CUresult error, const char** text)                                    \
  FUNCTION(cuDeviceGet, CUdevice* device, int ordinal)                                             \
  FUNCTION(cuDeviceGetCount, int* count)                                                           \
  FUNCTION(cuDeviceGetName, char* name, int length, CUdevice device)                               \
  FUNCTION(cuDeviceGetUuid_v2, CUuuid* uuid, CUdevice device)                                      \
  FUNCTION(cuDeviceGetPCIBusId, char* bus_id, int length, CUdevice device)                         \
  FUNCTION(cuDeviceGetAttribute, int* value, CUdevice_attribute attribute, CUdevice device)        \
  FUNCTION(cuDevicePrimaryCtxRetain, CUcontext* context, CUdevice device)                          \
  FUNCTION(cuDevicePrimaryCtxRelease_v2, CUdevice device)                                          \
  FUNCTION(cuCtxPushCurrent_v2, CUcontext context)                                                 \
  FUNCTION(cuCtxPopCurrent_v2, CUcontext* context)                                                 \
  FUNCTION(cuCtxGetDevice, CUdevice* device)                                                       \
  FUNCTION(cuCtxGetStreamPriorityRange, int* least, int* greatest)                                 \
  FUNCTION(cuStreamCreateWithPriority, CUstream* stream, unsigned flags, int priority)             \
  FUNCTION(cuStreamDestroy_v2, CUstream stream)                                                    \
  FUNCTION(cuStreamGetCtx, CUstream stream, CUcontext* context)                                    \
  FUNCTION(cuStreamSynchronize, CUstream stream)                                                   \
  FUNCTION(cuStreamQuery, CUstream stream)                                                         \
  FUNCTION(cuStreamWaitEvent, CUstream stream, CUevent event, unsigned flags)                      \
  FUNCTION(cuEventCreate, CUevent* event, unsigned flags)                                          \
  FUNCTION(cuEventDestroy_v2, CUevent event)                                                       \
  FUNCTION(cuEventRecord, CUevent event, CUstream stream)                                          \
  FUNCTION(cuEventQuery, CUevent event)                                                            \
  FUNCTION(cuEventSynchronize, CUevent event)                                                      \
  FUNCTION(cuEventElapsedTime, float* milliseconds, CUevent start, CUevent end)                    \
  FUNCTION(cuMemAlloc_v2, CUdeviceptr* pointer, size_t bytes)                                      \
  FUNCTION(cuMemFree_v2, CUdeviceptr pointer)                                                      \
  FUNCTION(cuMemHostAlloc, void** pointer, size_t bytes, unsigned flags)                           \
  FUNCTION(cuMemFreeHost, void* pointer)                                                           \
  FUNCTION(cuMemcpyHtoDAsync_v2, CUdeviceptr to, const void* from, size_t bytes, CUstream stream)  \
  FUNCTION(cuMemcpyDtoHAsync_v2, void* to, CUdeviceptr from, size_t bytes, CUstream stream)        \
  FUNCTION(cuMemcpyDtoDAsync_v2, CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)  \
  FUNCTION(cuMemsetD8Async, CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream)    \
  FUNCTION(cuModuleLoadData, CUmodule* module, const void* image)                                  \
  FUNCTION(cuModuleUnload, CUmodule module)                                                        \
  FUNCTION(cuModuleGetFunction, CUfunction* function, CUmodule module, const char* name)           \
  FUNCTION(cuLaunchKernel, CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, \
           unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_memory_bytes,     \
           CUstream stream, void** parameters, void** extra)
// clang-format on

/// The driver's functions under their own names: `driver->cuEventRecord(event, stream)`.
struct CudaDriver {
#define TFC_DECLARE_FUNCTION(symbol, ...) CUresult (*symbol)(__VA_ARGS__) = nullptr;
  TFC_CUDA_DRIVER_FUNCTIONS(TFC_DECLARE_FUNCTION)
#undef TFC_DECLARE_FUNCTION

  /// Ok for CUDA_SUCCESS; else a status that names the call, the driver's error and what to do. `call` says what was
  /// called, and for what: "cuMemAlloc of 134217728 bytes for the fusion buffer".
  Status Check(CUresult result, const char* call) const;
  /// "CUDA_ERROR_OUT_OF_MEMORY (out of memory)".
  std::string Describe(CUresult result) const;
};

/// Opens libcuda.so.1 and initialises it, once for the process. Null, and the reason in `status`, where that fails.
const CudaDriver* LoadCudaDriver(Status* status);

}  // namespace tf_collectives::cuda

/// Leaves the enclosing function with an error if the call of a driver function fails.
#define TFC_CUDA_RETURN_IF_ERROR(driver, function, ...) \
  TFC_RETURN_IF_ERROR((driver)->Check((driver)->function(__VA_ARGS__), #function))
