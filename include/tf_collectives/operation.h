#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tf_collectives/request.h"
#include "tf_collectives/status.h"

namespace tf_collectives {

/// One collective as submitted by this process: the request, the memory it works on, and whom to tell.
/// Memory must stay valid until `done` was called.
struct Operation {
  Request request;
  /// Identifies the TensorFlow step (or the eager call) that the operation belongs to. When one
  /// operation of a step fails, later ones of that step fail at once instead of waiting for peers.
  int64_t step_id = 0;
  /// GPU only: the stream on which TensorFlow computes the inputs and uses the outputs (a CUstream).
  void* stream = nullptr;
  /// GPU only: the backend's mark of the point of that stream from which on the memory may be used.
  std::shared_ptr<void> ready;
  /// One pointer per tensor. May equal the output's pointer.
  std::vector<const void*> inputs;
  /// One pointer per tensor; for an all-gather filled in by `allocate_outputs`.
  std::vector<void*> outputs;
  /// All-gather only: called once, on the runtime's thread, when the sizes of all ranks are known.
  std::function<Status(const GatherSizes&)> allocate_outputs;
  /// Called exactly once, on the runtime's thread or inside Submit.
  std::function<void(const Status&)> done;
};

using OperationPointer = std::shared_ptr<Operation>;

}  // namespace tf_collectives
