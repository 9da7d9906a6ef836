#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "communicators/communicator.h"
#include "communicators/device_backend.h"
#include "negotiation/participant.h"
#include "tf_collectives/fusion.h"

namespace tf_collectives {

/// Runs the operations of one decision: plans what travels together, and reports each operation when its last tensor is
/// done.
class ExecutionRun : public std::enable_shared_from_this<ExecutionRun> {
 public:
  ExecutionRun(std::vector<StartedOperation> started, int64_t fusion_threshold);

  int64_t tensors() const { return tensors_; }
  int64_t batches() const { return static_cast<int64_t>(plan_.size()); }
  int64_t bytes() const { return bytes_; }

  /// The stream of the first operation on a GPU, or null.
  void* gpu_stream() const;
  /// Runs the batches in order. Those on a GPU go on after this returns; a device error is reported to
  /// `on_device_error` from another thread. `gpu` may be null if nothing is on a GPU.
  Status RunAll(Communicator* communicator, DeviceBackend* gpu,
                const std::function<void(const Status&)>& on_device_done);
  /// Ends the operations on GPUs with `status` before they have begun.
  void FailGpu(const Status& status);
  /// Reports `status` to the operations that haven't been reported to.
  void FailRest(const Status& status);

 private:
  struct Entry {
    OperationPointer operation;
    GatherSizes sizes;
    Status status;
    int parts_left = 0;
    bool reported = false;
  };

  bool OnGpu(const FusionBatch& planned) const;
  void AllocateOutputs(Entry* entry, DeviceBackend* gpu);
  Batch Assemble(const FusionBatch& planned) const;
  DeviceBatch AssembleForGpu(const FusionBatch& planned) const;
  /// Counts a batch as done for its operations, and reports those of which it was the last.
  void Finish(const FusionBatch& planned, const Status& status);
  void Report(Entry* entry, const Status& status);

  /// Batches on a GPU finish on another thread.
  std::mutex mutex_;
  std::vector<Entry> entries_;
  std::vector<FusionBatch> plan_;
  int64_t tensors_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace tf_collectives
