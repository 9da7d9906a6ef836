#include "nccl/entry.h"

#include "driver/private_api.h"
#include "nccl/group.h"
#include "nccl/last_error.h"

namespace cuda_standin {

ncclResult_t EnterNccl(const char* function, int comm_rank, const std::string& fields, Fault* fault) {
  LogCall(function, FieldsForLog("comm_rank", comm_rank) + fields);
  if (InHostFunction())
    return Fail(ncclInvalidUsage, std::string(function) + " was called inside a host function of a stream");
  const int rank = GetSettings().rank >= 0 ? GetSettings().rank : comm_rank;
  *fault = FaultOf(function, rank);
  if (fault->action != Fault::Action::kFail) return ncclSuccess;
  return NoteErrorInGroup(
      Fail(static_cast<ncclResult_t>(fault->number), std::string(function) + " failed because a test asked for it"));
}

ncclResult_t EnterPlainNccl(const char* function, int comm_rank, const std::string& fields) {
  Fault fault;
  NCCL_RETURN_IF_ERROR(EnterNccl(function, comm_rank, fields, &fault));
  if (fault.action == Fault::Action::kHang) HangForever();
  if (fault.action == Fault::Action::kDelay) std::this_thread::sleep_for(std::chrono::milliseconds(fault.number));
  return ncclSuccess;
}

ncclResult_t Use(ncclComm_t handle, std::shared_ptr<Communicator>* communicator) {
  *communicator = FindCommunicator(handle);
  if (*communicator == nullptr)
    return NoteErrorInGroup(Fail(ncclInvalidArgument, "this isn't a communicator, or it was destroyed"));
  NCCL_RETURN_IF_ERROR(NoteErrorInGroup((*communicator)->EnsureReady()));
  if ((*communicator)->is_finalized) return NoteErrorInGroup(Fail(ncclInvalidUsage, "the communicator was finalized"));
  return ncclSuccess;
}

}  // namespace cuda_standin
