// The collectives, ncclSend, ncclRecv and groups.

#include "driver/private_api.h"
#include "nccl/collectives.h"
#include "nccl/entry.h"
#include "nccl/group.h"
#include "nccl/last_error.h"
#include "nccl/reduction.h"

#pragma GCC visibility push(default)

using namespace cuda_standin;

namespace {

struct Call {
  const char* function;
  Operation operation;
  ncclRedOp_t op = ncclSum;
};

bool Overlap(const void* a, size_t a_bytes, const void* b, size_t b_bytes) {
  const auto a_begin = reinterpret_cast<uintptr_t>(a);
  const auto b_begin = reinterpret_cast<uintptr_t>(b);
  return a_bytes > 0 && b_bytes > 0 && a_begin < b_begin + b_bytes && b_begin < a_begin + a_bytes;
}

// Where the two may be the same memory: the whole of it, or this rank's block of the longer one.
bool IsInPlace(const Communicator& communicator, const Operation& operation) {
  const size_t block = operation.count * BytesOf(operation.dtype) * static_cast<size_t>(communicator.rank);
  const char* send = static_cast<const char*>(operation.send);
  const char* receive = static_cast<const char*>(operation.receive);
  if (operation.kind == Kind::kAllGather) return send == receive + block;
  if (operation.kind == Kind::kReduceScatter) return receive == send + block;
  return send == receive && operation.kind != Kind::kAlltoAll;
}

std::string CheckMemory(const Communicator& communicator, const void* pointer, size_t bytes, const char* which) {
  if (bytes == 0) return {};
  if (DeviceOfPointer(pointer) != communicator.device)
    return std::string("the ") + which + " buffer isn't memory of device " + std::to_string(communicator.device);
  if (!IsAccessible(pointer, bytes))
    return std::string("the ") + which + " buffer of " + std::to_string(bytes) + " bytes isn't all in one allocation";
  return {};
}

std::string Check(const Communicator& communicator, const Operation& operation, CUstream stream) {
  if (BytesOf(operation.dtype) == 0) return "unknown data type " + std::to_string(operation.dtype);
  if (operation.peer < 0 || operation.peer >= communicator.size)
    return "there is no rank " + std::to_string(operation.peer);
  if (DeviceOfStream(stream) != communicator.device)
    return "the stream isn't one of device " + std::to_string(communicator.device);
  const size_t send_bytes = SendBytes(communicator, operation);
  const size_t receive_bytes = ReceiveBytes(communicator, operation);
  if (std::string wrong = CheckMemory(communicator, operation.send, send_bytes, "send"); !wrong.empty()) return wrong;
  if (std::string wrong = CheckMemory(communicator, operation.receive, receive_bytes, "receive"); !wrong.empty())
    return wrong;
  if (Overlap(operation.send, send_bytes, operation.receive, receive_bytes) && !IsInPlace(communicator, operation))
    return "the send and the receive buffer overlap";
  return {};
}

ncclResult_t Run(Call call, ncclComm_t comm, cudaStream_t stream) {
  Submission submission;
  const std::shared_ptr<Communicator> known = FindCommunicator(comm);
  Operation& operation = call.operation;
  const std::string fields =
      !IsLogging()
          ? std::string()
          : FieldsForLog("count", operation.count, "dtype", NameOf(operation.dtype), "op", call.op, "peer",
                         operation.peer, "stream", IdOfStream(stream), "in_place", operation.send == operation.receive);
  NCCL_RETURN_IF_ERROR(EnterNccl(call.function, known == nullptr ? -1 : known->rank, fields, &submission.fault));
  NCCL_RETURN_IF_ERROR(Use(comm, &submission.communicator));
  if (StickyError() != CUDA_SUCCESS)
    return NoteErrorInGroup(Fail(ncclUnhandledCudaError, "the device is of no more use after an earlier CUDA error"));
  const Communicator& communicator = *submission.communicator;
  std::string wrong = Check(communicator, operation, stream);
  if (wrong.empty() && !communicator.FindReduction(call.op, operation.dtype, &operation.reduction))
    wrong = "reduction " + std::to_string(call.op) + " isn't one of this communicator and data type";
  if (!wrong.empty()) return NoteErrorInGroup(Fail(ncclInvalidArgument, std::string(call.function) + ": " + wrong));
  submission.operation = operation;
  submission.stream = stream;
  return Submit(std::move(submission));
}

}  // namespace

extern "C" {

ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t dtype, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return Run({__func__, {Kind::kAllReduce, send, receive, count, dtype, {}, 0}, op}, comm, stream);
}

ncclResult_t ncclReduce(const void* send, void* receive, size_t count, ncclDataType_t dtype, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  return Run({__func__, {Kind::kReduce, send, receive, count, dtype, {}, root}, op}, comm, stream);
}

ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t dtype, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return Run({__func__, {Kind::kBroadcast, send, receive, count, dtype, {}, root}}, comm, stream);
}

ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t dtype, int root, ncclComm_t comm,
                       cudaStream_t stream) {
  return Run({__func__, {Kind::kBroadcast, buffer, buffer, count, dtype, {}, root}}, comm, stream);
}

ncclResult_t ncclAllGather(const void* send, void* receive, size_t count, ncclDataType_t dtype, ncclComm_t comm,
                           cudaStream_t stream) {
  return Run({__func__, {Kind::kAllGather, send, receive, count, dtype, {}, 0}}, comm, stream);
}

ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t count, ncclDataType_t dtype, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  return Run({__func__, {Kind::kReduceScatter, send, receive, count, dtype, {}, 0}, op}, comm, stream);
}

// Of NCCL 2.28.
ncclResult_t ncclAlltoAll(const void* send, void* receive, size_t count, ncclDataType_t dtype, ncclComm_t comm,
                          cudaStream_t stream) {
  return Run({__func__, {Kind::kAlltoAll, send, receive, count, dtype, {}, 0}}, comm, stream);
}

ncclResult_t ncclSend(const void* buffer, size_t count, ncclDataType_t dtype, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return Run({__func__, {Kind::kSend, buffer, nullptr, count, dtype, {}, peer}}, comm, stream);
}

ncclResult_t ncclRecv(void* buffer, size_t count, ncclDataType_t dtype, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return Run({__func__, {Kind::kReceive, nullptr, buffer, count, dtype, {}, peer}}, comm, stream);
}

ncclResult_t ncclGroupStart() {
  NCCL_RETURN_IF_ERROR(EnterPlainNccl(__func__, -1, {}));
  StartGroup();
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  NCCL_RETURN_IF_ERROR(EnterPlainNccl(__func__, -1, {}));
  return EndGroup();
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t dtype,
                                      ncclScalarResidence_t residence, ncclComm_t comm) {
  NCCL_RETURN_IF_ERROR(EnterPlainNccl(__func__, -1, FieldsForLog("dtype", NameOf(dtype))));
  std::shared_ptr<Communicator> communicator;
  NCCL_RETURN_IF_ERROR(Use(comm, &communicator));
  if (BytesOf(dtype) == 0 || scalar == nullptr)
    return Fail(ncclInvalidArgument, "ncclRedOpCreatePreMulSum: no scalar, or one of unknown type");
  if (residence != ncclScalarHostImmediate)
    return Fail(ncclInvalidUsage, "the CUDA stand-in takes the scalar of a PreMulSum from host memory only");
  *op = communicator->AddReduction(ReadScalar(scalar, dtype), dtype);
  return ncclSuccess;
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  NCCL_RETURN_IF_ERROR(EnterPlainNccl(__func__, -1, {}));
  const std::shared_ptr<Communicator> communicator = FindCommunicator(comm);
  if (communicator == nullptr || !communicator->RemoveReduction(op))
    return Fail(ncclInvalidArgument, "ncclRedOpDestroy: not a reduction of this communicator");
  return ncclSuccess;
}

}  // extern "C"
