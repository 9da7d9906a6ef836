#pragma once

#include <nccl.h>

#include <string>

#include "common/call_log.h"
#include "common/faults.h"
#include "nccl/communicator.h"

namespace cuda_standin {

/// Refuses the call inside a host function, injects a fault where one is due, and logs. What it returns other than
/// ncclSuccess is what the call returns; other faults are left for the caller.
ncclResult_t EnterNccl(const char* function, int comm_rank, const std::string& fields, Fault* fault);

/// The same for calls that a fault can only make fail or hang.
ncclResult_t EnterPlainNccl(const char* function, int comm_rank, const std::string& fields);

/// Finds a communicator that can be used now.
ncclResult_t Use(ncclComm_t handle, std::shared_ptr<Communicator>* communicator);

}  // namespace cuda_standin

#define NCCL_RETURN_IF_ERROR(call) \
  if (const ncclResult_t error_ = (call); error_ != ncclSuccess) return error_
