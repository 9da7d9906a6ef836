// ncclMemAlloc, ncclCommRegister and what else has to do with memory.

#include <atomic>

#include "driver/private_api.h"
#include "nccl/entry.h"
#include "nccl/last_error.h"

#pragma GCC visibility push(default)

using namespace cuda_standin;

extern "C" {

// Like the real one, it gives memory in large pieces.
ncclResult_t ncclMemAlloc(void** pointer, size_t bytes) {
  constexpr size_t kGranularity = size_t{2} << 20;
  NCCL_RETURN_IF_ERROR(EnterPlainNccl(__func__, -1, FieldsForLog("bytes", bytes)));
  if (bytes == 0 || CurrentDeviceOrdinal() < 0)
    return Fail(ncclInvalidArgument, "ncclMemAlloc: nothing to allocate, or no current device");
  const CUdeviceptr memory =
      AllocateOn(CurrentDeviceOrdinal(), (bytes + kGranularity - 1) / kGranularity * kGranularity);
  if (memory == 0) return Fail(ncclUnhandledCudaError, "ncclMemAlloc: out of memory");
  *pointer = reinterpret_cast<void*>(memory);
  return ncclSuccess;
}

ncclResult_t ncclMemFree(void* pointer) {
  NCCL_RETURN_IF_ERROR(EnterPlainNccl(__func__, -1, FieldsForLog("pointer", pointer)));
  if (!FreeDeviceMemory(reinterpret_cast<CUdeviceptr>(pointer)))
    return Fail(ncclInvalidArgument, "ncclMemFree: not an allocation");
  return ncclSuccess;
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buffer, size_t bytes, void** handle) {
  static std::atomic<uintptr_t> next{1};
  NCCL_RETURN_IF_ERROR(EnterPlainNccl(__func__, -1, FieldsForLog("bytes", bytes)));
  std::shared_ptr<Communicator> communicator;
  NCCL_RETURN_IF_ERROR(Use(comm, &communicator));
  if (DeviceOfPointer(buffer) != communicator->device || !IsAccessible(buffer, bytes))
    return Fail(ncclInvalidArgument, "ncclCommRegister: these bytes aren't all in one allocation of the device");
  *handle = reinterpret_cast<void*>(next++);
  return ncclSuccess;
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle) {
  NCCL_RETURN_IF_ERROR(EnterPlainNccl(__func__, -1, FieldsForLog("handle", handle)));
  if (FindCommunicator(comm) == nullptr || handle == nullptr)
    return Fail(ncclInvalidArgument, "ncclCommDeregister: not a communicator, or not a registration");
  return ncclSuccess;
}

}  // extern "C"
