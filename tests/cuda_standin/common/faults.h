#pragma once

#include <string>

#include "common/export.h"

namespace cuda_standin {

/// What CUDA_STANDIN_FAULTS asks of one call: a list, separated by commas, of FUNCTION[@RANK][#N]=ACTION. The N-th call
/// (from 1, the default) of the function in a process with that rank (default: any) meets the action.
struct Fault {
  enum class Action {
    kNone,
    /// A number: the call fails with this code.
    kFail,
    /// `hang`: what the call puts on its stream never ends; a call that has no stream never returns.
    kHang,
    /// `async`: what an NCCL call puts on its stream never ends, and the communicator reports an asynchronous error.
    kAsyncError,
    /// `delay:MS`: what the call puts on its stream starts that much later.
    kDelay,
  };
  Action action = Action::kNone;
  int number = 0;
};

/// Counts the call. `lose`, the action that ends the process as a crash would, has happened before it could return.
STANDIN_EXPORT Fault FaultOf(const std::string& function, int rank);

/// `cuMemAlloc` of `cuMemAlloc_v2`: the name in the log and in faults.
STANDIN_EXPORT std::string WithoutVersion(const char* function);

/// Never returns.
[[noreturn]] STANDIN_EXPORT void HangForever();

}  // namespace cuda_standin
