#pragma once

#include <cuda.h>
#include <nccl.h>

#include <functional>
#include <memory>

#include "common/faults.h"
#include "nccl/communicator.h"

namespace cuda_standin {

/// An operation, where it runs, and what a fault does to it.
struct Submission {
  std::shared_ptr<Communicator> communicator;
  CUstream stream = nullptr;
  Operation operation;
  Fault fault;
};

void StartGroup();
/// Launches what the group holds. An error of a call inside it is returned here, and then nothing is launched.
ncclResult_t EndGroup();

/// Launches now, or at the end of the group.
ncclResult_t Submit(Submission submission);
/// Inside a group: makes its end fail.
ncclResult_t NoteErrorInGroup(ncclResult_t error);
/// Makes a communicator now, or together with the others at the end of the group. The call gets what `start` returns.
ncclResult_t SubmitStart(std::shared_ptr<Communicator> communicator, std::function<void()> start);

}  // namespace cuda_standin
