#pragma once

#include <vector>

#include "communicators/communicator.h"
#include "negotiation/participant.h"
#include "tf_collectives/fusion.h"

namespace tf_collectives {

/// Runs the operations of one decision: plans what travels together, and reports each operation when its last tensor is
/// done.
class ExecutionRun {
 public:
  ExecutionRun(std::vector<StartedOperation> started, int64_t fusion_threshold);

  int64_t tensors() const { return tensors_; }
  int64_t batches() const { return static_cast<int64_t>(plan_.size()); }
  int64_t bytes() const { return bytes_; }

  Status RunAll(Communicator* communicator);
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

  void AllocateOutputs(Entry* entry);
  Batch Assemble(const FusionBatch& planned) const;
  void Report(Entry* entry, const Status& status);

  std::vector<Entry> entries_;
  std::vector<FusionBatch> plan_;
  int64_t tensors_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace tf_collectives
