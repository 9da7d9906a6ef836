#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tensorflow/core/framework/op_kernel.h"
#include "tf_collectives/operation.h"

namespace tf_collectives {

/// What all collective kernels share: a kernel describes its operation in Prepare, and this submits it, ends it when
/// the step is cancelled, and reports its result. ComputeAsync never waits. A grouped collective is the same kernel
/// with more tensors.
class CollectiveKernel : public tensorflow::AsyncOpKernel {
 public:
  CollectiveKernel(tensorflow::OpKernelConstruction* construction, CollectiveKind kind);

  void ComputeAsync(tensorflow::OpKernelContext* context, DoneCallback done) final;

 protected:
  /// Fills in tensors and memory, and optionally what to run before the op is reported done with success. An error is
  /// announced to the other ranks, so that they don't wait.
  virtual Status Prepare(tensorflow::OpKernelContext* context, Operation* operation,
                         std::function<void()>* on_success) = 0;

  /// Makes output `index` where the kernel runs.
  Status AllocateOutput(tensorflow::OpKernelContext* context, int index, const tensorflow::TensorShape& shape,
                        tensorflow::Tensor** output) const;

 private:
  const CollectiveKind kind_;
  const DeviceKind device_;
  std::string tensor_name_;
};

}  // namespace tf_collectives
