#include "communicators/nccl/nccl_communicator.h"

#include <algorithm>
#include <thread>

#include "text.h"

namespace tf_collectives {

using cuda::ncclInProgress;
using cuda::ncclResult_t;

Status NcclCommunicator::Connect(const cuda::Device* device, const cuda::Nccl* nccl, const cuda::ncclUniqueId& id,
                                 const DeviceBackend::Options& options,
                                 std::unique_ptr<NcclCommunicator>* communicator) {
  std::unique_ptr<NcclCommunicator> made(new NcclCommunicator(device, nccl, options));
  TFC_RETURN_IF_ERROR(made->Initialise(id));
  *communicator = std::move(made);
  return Status::Ok();
}

Status NcclCommunicator::Initialise(const cuda::ncclUniqueId& id) {
  const cuda::ContextGuard guard(device_->driver(), device_->context());
  TFC_RETURN_IF_ERROR(guard.status());
  TFC_RETURN_IF_ERROR(device_->CreateStream(&stream_));
  TFC_RETURN_IF_ERROR(cuda::PackKernels::Create(device_, &kernels_));
  cuda::ncclConfig_t config;
  config.blocking = 0;
  config.commName = options_.name.c_str();
  TFC_NCCL_RETURN_IF_ERROR(nccl_, nullptr, ncclCommInitRankConfig, &comm_, options_.size, id, options_.rank, &config);
  TFC_RETURN_IF_ERROR(WaitWhileInProgress("connect to the GPUs of the other ranks"));
  return ReserveSlab(static_cast<size_t>(options_.slab_bytes));
}

NcclCommunicator::~NcclCommunicator() {
  if (comm_ == nullptr) return;
  const cuda::ContextGuard guard(device_->driver(), device_->context());
  if (!aborted_) {
    if (slab_registration_ != nullptr) nccl_->ncclCommDeregister(comm_, slab_registration_);
    // Destroying a non-blocking communicator needs finalizing it first, and the peers may be gone; so it is aborted,
    // which is local.
    Abort();
  }
  if (slab_ != nullptr && own_slab_ == nullptr) nccl_->ncclMemFree(slab_);
}

Status NcclCommunicator::ReserveSlab(size_t bytes) {
  slab_bytes_ = bytes;
  if (bytes == 0) return Status::Ok();
  if (nccl_->ncclMemAlloc(&slab_, bytes) == cuda::ncclSuccess) {
    // Without registration NCCL copies through buffers of its own, which is slower and right all the same.
    if (nccl_->ncclCommRegister(comm_, slab_, bytes, &slab_registration_) != cuda::ncclSuccess)
      slab_registration_ = nullptr;
    return WaitWhileInProgress("register the fusion buffer");
  }
  TFC_RETURN_IF_ERROR(device_->Allocate(bytes, "the fusion buffer (TFC_FUSION_THRESHOLD)", &own_slab_));
  slab_ = own_slab_.get();
  return Status::Ok();
}

Status NcclCommunicator::WaitWhileInProgress(const char* what) {
  const Clock::time_point start = Clock::now();
  for (;;) {
    ncclResult_t state = ncclInProgress;
    const Status asked = nccl_->Check(nccl_->ncclCommGetAsyncError(comm_, &state), "ncclCommGetAsyncError", comm_);
    const Status outcome = asked.ok() && state != ncclInProgress ? nccl_->Check(state, what, comm_) : asked;
    if (!outcome.ok()) {
      Abort();
      return outcome;
    }
    if (state != ncclInProgress) return Status::Ok();
    if (aborted_) return {StatusCode::kUnavailable, "the GPU communicator was aborted."};
    if (options_.timeout.count() > 0 && Clock::now() > start + options_.timeout) {
      Abort();
      return {
          StatusCode::kDeadlineExceeded,
          Concat("NCCL did not ", what, " within ", std::chrono::duration<double>(options_.timeout).count(),
                 " s (TFC_TIMEOUT_SECONDS). See what the other ranks do; NCCL_DEBUG=INFO shows what NCCL waits for.")};
    }
    // NCCL offers nothing to wait on. It takes milliseconds while connecting, and is seldom in progress at all later.
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

Status NcclCommunicator::CheckAsync() const {
  ncclResult_t state = cuda::ncclSuccess;
  TFC_NCCL_RETURN_IF_ERROR(nccl_, comm_, ncclCommGetAsyncError, comm_, &state);
  return nccl_->Check(state, "a collective", comm_);
}

void NcclCommunicator::Abort() {
  if (!aborted_.exchange(true)) nccl_->ncclCommAbort(comm_);
}

Status NcclCommunicator::Run(const Batch& batch) {
  if (aborted_) return {StatusCode::kUnavailable, "the GPU communicator was aborted."};
  switch (batch.kind) {
    case CollectiveKind::kAllReduce:
      return AllReduce(batch);
    case CollectiveKind::kAllGather:
      return AllGather(batch);
    case CollectiveKind::kBroadcast:
      return Broadcast(batch);
  }
  return {StatusCode::kInternal, "Unknown kind of collective."};
}

}  // namespace tf_collectives
