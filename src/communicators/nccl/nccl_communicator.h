#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "communicators/communicator.h"
#include "communicators/device_backend.h"
#include "cuda/device.h"
#include "cuda/nccl.h"
#include "cuda/pack.h"

namespace tf_collectives {

/// Collectives between GPUs by NCCL, on one stream of one device. Run queues a batch on the stream and returns before
/// it has run. For one thread, except Abort and CheckAsync.
class NcclCommunicator : public Communicator {
 public:
  /// Connects to the other ranks' communicators without blocking inside NCCL, and gives up at the deadline.
  static Status Connect(const cuda::Device* device, const cuda::Nccl* nccl, const cuda::ncclUniqueId& id,
                        const DeviceBackend::Options& options, std::unique_ptr<NcclCommunicator>* communicator);
  ~NcclCommunicator() override;

  Status Run(const Batch& batch) override;
  CUstream stream() const { return stream_.get(); }

  /// An error that showed after the calls had returned, such as a lost peer.
  Status CheckAsync() const;
  /// Stops what runs on the GPU. Nothing can be queued afterwards.
  void Abort();

 private:
  /// What NCCL is asked to reduce: a tensor by itself, or the fusion buffer.
  struct Piece {
    const void* send = nullptr;
    void* receive = nullptr;
    size_t count = 0;
  };

  NcclCommunicator(const cuda::Device* device, const cuda::Nccl* nccl, const DeviceBackend::Options& options)
      : device_(device), nccl_(nccl), options_(options) {}

  Status Initialise(const cuda::ncclUniqueId& id);
  /// Reserves the fusion buffer; once, because memory that NCCL has mapped on all peers is dear.
  Status ReserveSlab(size_t bytes);

  Status AllReduce(const Batch& batch);
  Status AllReduceApart(const Batch& batch, const std::vector<size_t>& segments);
  Status AllReducePacked(const Batch& batch, const std::vector<size_t>& segments);
  Status ReducePieces(const Batch& batch, const std::vector<Piece>& pieces);
  Status AllGather(const Batch& batch);
  Status Broadcast(const Batch& batch);

  /// Runs `calls` as one group of NCCL calls and waits until they are queued.
  template <typename Calls>
  Status Group(const Calls& calls);
  Status WaitWhileInProgress(const char* what);

  const cuda::Device* device_;
  const cuda::Nccl* nccl_;
  const DeviceBackend::Options options_;
  ncclComm_t comm_ = nullptr;
  std::atomic<bool> aborted_{false};
  cuda::Stream stream_;
  std::unique_ptr<cuda::PackKernels> kernels_;
  void* slab_ = nullptr;
  size_t slab_bytes_ = 0;
  void* slab_registration_ = nullptr;
  cuda::DeviceMemory own_slab_;  // where NCCL allocates none
};

template <typename Calls>
Status NcclCommunicator::Group(const Calls& calls) {
  TFC_NCCL_RETURN_IF_ERROR(nccl_, comm_, ncclGroupStart);
  const Status status = calls();
  const cuda::ncclResult_t ended = nccl_->ncclGroupEnd();
  TFC_RETURN_IF_ERROR(status);
  TFC_RETURN_IF_ERROR(nccl_->Check(ended, "ncclGroupEnd", comm_));
  return WaitWhileInProgress("queue a collective");
}

}  // namespace tf_collectives
