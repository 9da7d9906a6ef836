// Making, asking and ending communicators.

#include <cstring>

#include "driver/private_api.h"
#include "nccl/bootstrap.h"
#include "nccl/entry.h"
#include "nccl/group.h"
#include "nccl/last_error.h"

#pragma GCC visibility push(default)

using namespace cuda_standin;

namespace {

void MeetFault(const Communicator& communicator, const Fault& fault) {
  if (fault.action == Fault::Action::kDelay) std::this_thread::sleep_for(std::chrono::milliseconds(fault.number));
  while (fault.action == Fault::Action::kHang && !communicator.is_aborted())
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

ncclResult_t Make(ncclComm_t* comm, int size, const std::string& path, int rank, Config config, const Fault& fault) {
  if (size < 1 || rank < 0 || rank >= size)
    return NoteErrorInGroup(
        Fail(ncclInvalidArgument, "rank " + std::to_string(rank) + " of " + std::to_string(size) + " can't be"));
  if (DeviceCount() == 0) return NoteErrorInGroup(Fail(ncclUnhandledCudaError, "no CUDA device"));
  if (CurrentDeviceOrdinal() < 0) MakeDeviceCurrent(0);
  auto communicator = std::make_shared<Communicator>(rank, size, CurrentDeviceOrdinal(), std::move(config));
  Communicator* made = communicator.get();
  *comm = AddCommunicator(communicator);
  const ncclResult_t result = SubmitStart(std::move(communicator), [made, path, fault] {
    MeetFault(*made, fault);
    made->Join(path);
  });
  if (result == ncclSuccess || result == ncclInProgress) return result;
  RemoveCommunicator(*comm);
  *comm = nullptr;
  return result;
}

std::string PathOf(const ncclUniqueId& id) { return {id.internal, strnlen(id.internal, sizeof id.internal)}; }

int RankOf(ncclComm_t comm) {
  const std::shared_ptr<Communicator> communicator = FindCommunicator(comm);
  return communicator == nullptr ? -1 : communicator->rank;
}

}  // namespace

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  NCCL_RETURN_IF_ERROR(EnterPlainNccl(__func__, -1, {}));
  std::memset(id, 0, sizeof *id);
  NewMeetingPath().copy(id->internal, sizeof id->internal - 1);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank, ncclConfig_t* config) {
  Fault fault;
  Config read;
  NCCL_RETURN_IF_ERROR(ReadConfig(config, {}, &read));
  NCCL_RETURN_IF_ERROR(
      EnterNccl(__func__, rank, FieldsForLog("size", size, "blocking", read.blocking, "name", read.name), &fault));
  return Make(comm, size, PathOf(id), rank, read, fault);
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank) {
  Fault fault;
  NCCL_RETURN_IF_ERROR(EnterNccl(__func__, rank, FieldsForLog("size", size), &fault));
  return Make(comm, size, PathOf(id), rank, {}, fault);
}

ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int size, int rank, int, ncclUniqueId* ids,
                                      ncclConfig_t* config) {
  Fault fault;
  Config read;
  NCCL_RETURN_IF_ERROR(ReadConfig(config, {}, &read));
  NCCL_RETURN_IF_ERROR(EnterNccl(__func__, rank, FieldsForLog("size", size), &fault));
  return Make(comm, size, PathOf(ids[0]), rank, read, fault);
}

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int count, const int* devices) {
  NCCL_RETURN_IF_ERROR(EnterPlainNccl(__func__, -1, FieldsForLog("size", count)));
  const std::string path = NewMeetingPath();
  const int before = CurrentDeviceOrdinal();
  StartGroup();
  for (int rank = 0; rank < count; ++rank) {
    MakeDeviceCurrent(devices == nullptr ? rank : devices[rank]);
    Make(&comms[rank], count, path, rank, {}, {});
  }
  MakeDeviceCurrent(before < 0 ? 0 : before);
  return EndGroup();
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* new_comm, ncclConfig_t* config) {
  Fault fault;
  NCCL_RETURN_IF_ERROR(EnterNccl(__func__, RankOf(comm), FieldsForLog("color", color, "key", key), &fault));
  std::shared_ptr<Communicator> parent;
  NCCL_RETURN_IF_ERROR(Use(comm, &parent));
  Config read;
  NCCL_RETURN_IF_ERROR(ReadConfig(config, parent->config, &read));
  Operation operation;
  operation.kind = Kind::kSplit;
  const Signature signature = parent->Launch(operation);
  *new_comm = nullptr;
  if (color < 0) {
    return SubmitStart(parent, [parent = parent.get(), color, key, signature, fault] {
      MeetFault(*parent, fault);
      Split(*parent, color, key, signature, nullptr);
      parent->EndBackground();
    });
  }
  const auto child = std::make_shared<Communicator>(-1, -1, parent->device, read);
  *new_comm = AddCommunicator(child);
  return SubmitStart(child, [parent, child = child.get(), color, key, signature, fault] {
    MeetFault(*child, fault);
    Split(*parent, color, key, signature, child);
  });
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  NCCL_RETURN_IF_ERROR(EnterPlainNccl(__func__, RankOf(comm), {}));
  std::shared_ptr<Communicator> communicator;
  NCCL_RETURN_IF_ERROR(Use(comm, &communicator));
  communicator->is_finalized = true;
  Communicator* finalized = communicator.get();
  return SubmitStart(std::move(communicator), [finalized] {
    finalized->Drain();
    finalized->EndBackground();
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  NCCL_RETURN_IF_ERROR(EnterPlainNccl(__func__, RankOf(comm), {}));
  const std::shared_ptr<Communicator> communicator = FindCommunicator(comm);
  if (communicator == nullptr) return Fail(ncclInvalidArgument, "ncclCommDestroy: not a communicator");
  if (communicator->state() == ncclInProgress) return communicator->EnsureReady();
  // The thread in the background may hold the last reference but one, and can't wait for itself.
  communicator->JoinBackground();
  communicator->Drain();
  RemoveCommunicator(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  NCCL_RETURN_IF_ERROR(EnterPlainNccl(__func__, RankOf(comm), {}));
  const std::shared_ptr<Communicator> communicator = FindCommunicator(comm);
  if (communicator == nullptr) return Fail(ncclInvalidArgument, "ncclCommAbort: not a communicator");
  communicator->Abort();
  RemoveCommunicator(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  NCCL_RETURN_IF_ERROR(EnterPlainNccl(__func__, RankOf(comm), {}));
  const std::shared_ptr<Communicator> communicator = FindCommunicator(comm);
  if (communicator == nullptr) return Fail(ncclInvalidArgument, "ncclCommGetAsyncError: not a communicator");
  *error = communicator->state();
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  NCCL_RETURN_IF_ERROR(EnterPlainNccl(__func__, RankOf(comm), {}));
  std::shared_ptr<Communicator> communicator;
  NCCL_RETURN_IF_ERROR(Use(comm, &communicator));
  *count = communicator->size;
  return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  NCCL_RETURN_IF_ERROR(EnterPlainNccl(__func__, RankOf(comm), {}));
  std::shared_ptr<Communicator> communicator;
  NCCL_RETURN_IF_ERROR(Use(comm, &communicator));
  *device = communicator->device;
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  NCCL_RETURN_IF_ERROR(EnterPlainNccl(__func__, RankOf(comm), {}));
  std::shared_ptr<Communicator> communicator;
  NCCL_RETURN_IF_ERROR(Use(comm, &communicator));
  *rank = communicator->rank;
  return ncclSuccess;
}

ncclResult_t ncclGetVersion(int* version) {
  NCCL_RETURN_IF_ERROR(EnterPlainNccl(__func__, -1, {}));
  *version = GetSettings().nccl_version;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  static constexpr const char* kTexts[] = {"no error",
                                           "unhandled cuda error",
                                           "unhandled system error",
                                           "internal error",
                                           "invalid argument",
                                           "invalid usage",
                                           "remote process exited or there was a network error",
                                           "NCCL operation in progress"};
  return result < 0 || result >= ncclNumResults ? "unknown result code" : kTexts[result];
}

const char* ncclGetLastError(ncclComm_t) { return LastErrorText(); }

}  // extern "C"
