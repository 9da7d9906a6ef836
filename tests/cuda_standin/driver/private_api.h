#pragma once

#include <cuda.h>

#include <cstddef>
#include <functional>
#include <string>

#include "common/export.h"

// What libcuda offers to the stand-in's other libraries.

namespace cuda_standin {

STANDIN_EXPORT int DeviceCount();
STANDIN_EXPORT int CurrentDeviceOrdinal();
STANDIN_EXPORT void MakeDeviceCurrent(int ordinal);
STANDIN_EXPORT int PhysicalDevice(int ordinal);
STANDIN_EXPORT std::string PciBusIdOf(int ordinal);
/// -1 for memory that isn't a device's.
STANDIN_EXPORT int DeviceOfPointer(const void* pointer);

/// Where the stand-in's threads find these bytes, of a device or of the host. Null, with a sticky error that names
/// `user`, if they are a device's and don't all lie in one live allocation.
STANDIN_EXPORT void* ViewForUser(const void* pointer, size_t bytes, const std::string& user);
/// The same without the error.
STANDIN_EXPORT bool IsAccessible(const void* pointer, size_t bytes);

/// -1 for what isn't a stream.
STANDIN_EXPORT int DeviceOfStream(CUstream stream);
STANDIN_EXPORT unsigned long long IdOfStream(CUstream stream);
STANDIN_EXPORT void PushTask(CUstream stream, std::function<void()> task);

STANDIN_EXPORT CUdeviceptr AllocateOn(int device, size_t bytes);
STANDIN_EXPORT bool FreeDeviceMemory(CUdeviceptr pointer);

/// CUDA_SUCCESS as long as nothing went wrong for good.
STANDIN_EXPORT CUresult StickyError();
/// Only the first one counts. Every later call that copies, launches, records or waits returns it.
STANDIN_EXPORT void SetStickyError(CUresult error, const std::string& text);

/// Refuses the call inside a host function, injects a fault where one is due, and logs. What it returns other than
/// CUDA_SUCCESS is what the call returns.
STANDIN_EXPORT CUresult EnterCall(const char* function, const std::string& fields);
STANDIN_EXPORT bool InHostFunction();

STANDIN_EXPORT CUresult LaunchKernel(const std::string& name, CUstream stream, const unsigned grid[3],
                                     const unsigned block[3], unsigned shared_bytes, void** parameters);

/// A function of this library itself. Calling it by name could reach what TensorFlow exports under the same name.
STANDIN_EXPORT void* DriverFunction(const char* name);

/// What a generated stub calls.
extern "C" STANDIN_EXPORT int cuda_standin_missing(const char* library, const char* function, int result);

}  // namespace cuda_standin

#define STANDIN_ENTER(...)                                                                                      \
  if (const CUresult refused_ = ::cuda_standin::EnterCall(__func__, ::cuda_standin::FieldsForLog(__VA_ARGS__)); \
      refused_ != CUDA_SUCCESS)                                                                                 \
  return refused_
