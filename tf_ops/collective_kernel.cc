#include "collective_kernel.h"

#include "conversions.h"
#include "gpu_stream.h"
#include "output_allocator.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tf_collectives/runtime.h"

namespace tf_collectives {
namespace {

using tensorflow::CancellationManager;
using tensorflow::CancellationToken;
using tensorflow::OpKernelContext;

/// Ties an operation to the cancellation of its step while it is in flight.
class CancellationGuard {
 public:
  explicit CancellationGuard(CancellationManager* manager) : manager_(manager) {}

  /// Returns false if the step is cancelled already.
  bool Watch(const std::weak_ptr<Operation>& operation) {
    if (manager_ == nullptr) return true;
    token_ = manager_->get_cancellation_token();
    watching_ = manager_->RegisterCallback(token_, [operation] {
      if (const OperationPointer in_flight = operation.lock()) Runtime::Get().Cancel(in_flight);
    });
    return watching_;
  }

  /// After this the callback neither runs nor is running.
  void Release() {
    if (watching_) manager_->DeregisterCallback(token_);
  }

 private:
  CancellationManager* manager_;
  CancellationToken token_ = CancellationManager::kInvalidToken;
  bool watching_ = false;
};

}  // namespace

CollectiveKernel::CollectiveKernel(tensorflow::OpKernelConstruction* construction, CollectiveKind kind)
    : AsyncOpKernel(construction),
      kind_(kind),
      device_(construction->device_type() == tensorflow::DeviceType(tensorflow::DEVICE_GPU) ? DeviceKind::kGpu
                                                                                            : DeviceKind::kCpu) {
  OP_REQUIRES_OK(construction, construction->GetAttr("tensor_name", &tensor_name_));
}

void CollectiveKernel::ComputeAsync(OpKernelContext* context, DoneCallback done) {
  auto operation = std::make_shared<Operation>();
  operation->request.name = tensor_name_;
  operation->request.kind = kind_;
  operation->request.device = device_;
  operation->step_id = context->step_id();
  if (device_ == DeviceKind::kGpu) operation->stream = GpuStream(context);
  std::function<void()> on_success;
  const Status prepared = Prepare(context, operation.get(), &on_success);
  if (!prepared.ok()) {
    const std::string title =
        std::string(NameOf(kind_)) + (tensor_name_.empty() ? " (unnamed)" : " '" + tensor_name_ + "'");
    const Status status(prepared.code(), title + ": " + prepared.message());
    Runtime::Get().ReportFailure(operation->step_id, status);
    context->SetStatus(ToTensorFlow(status));
    done();
    return;
  }

  auto guard = std::make_shared<CancellationGuard>(context->cancellation_manager());
  if (!guard->Watch(operation)) {
    Runtime::Get().Cancel(operation);
    context->SetStatus(absl::CancelledError("the step was cancelled before the collective began"));
    done();
    return;
  }
  operation->done = [context, guard, on_success = std::move(on_success), done = std::move(done)](const Status& status) {
    guard->Release();
    if (status.ok() && on_success != nullptr) on_success();
    context->SetStatus(ToTensorFlow(status));
    done();
  };
  Runtime::Get().Submit(operation);
}

Status CollectiveKernel::AllocateOutput(OpKernelContext* context, int index, const tensorflow::TensorShape& shape,
                                        tensorflow::Tensor** output) const {
  return FromTensorFlow(device_ == DeviceKind::kGpu ? context->allocate_output(index, shape, output)
                                                    : AllocateCpuOutput(context, index, shape, output));
}

}  // namespace tf_collectives
