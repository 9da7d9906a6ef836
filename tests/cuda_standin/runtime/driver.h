#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "driver/private_api.h"

// Calling the driver from the stand-in's libcudart: DRIVER(cuMemAlloc)(&pointer, bytes).

#define DRIVER_NAME_2(function) #function
#define DRIVER_NAME(function) DRIVER_NAME_2(function)
#define DRIVER(function)                                                                              \
  ([] {                                                                                               \
    static const auto found =                                                                         \
        reinterpret_cast<decltype(&function)>(::cuda_standin::DriverFunction(DRIVER_NAME(function))); \
    return found;                                                                                     \
  }())

namespace cuda_standin {

/// Keeps the code for cudaGetLastError. The codes of the two APIs are the same.
cudaError_t Result(CUresult result);
cudaError_t TakeLastError();
cudaError_t LastError();

/// The runtime API makes device 0 current where the thread has none.
CUresult EnsureCurrentDevice();

inline CUstream Driver(cudaStream_t stream) { return stream; }
inline CUevent Driver(cudaEvent_t event) { return event; }
inline CUdeviceptr Driver(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

}  // namespace cuda_standin

/// The device is made current, then the driver is asked.
#define RETURN_DRIVER(call)                                                                    \
  do {                                                                                         \
    if (const CUresult error_ = ::cuda_standin::EnsureCurrentDevice(); error_ != CUDA_SUCCESS) \
      return ::cuda_standin::Result(error_);                                                   \
    return ::cuda_standin::Result(call);                                                       \
  } while (false)
