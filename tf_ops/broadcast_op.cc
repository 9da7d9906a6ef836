#include "collective_kernel.h"
#include "conversions.h"
#include "shape_functions.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tf_collectives/runtime.h"

namespace tf_collectives {

// Ops. Stateful, because nothing else keeps Grappler from merging, folding and pruning them; marked as communication,
// because TensorFlow hides an UnavailableError of any other op.

#define TFC_BROADCASTABLE_TYPES                                                                                 \
  "{uint8, int8, uint16, int16, uint32, int32, uint64, int64, half, bfloat16, float, double, bool, complex64, " \
  "complex128}"

REGISTER_OP("Collectives>Broadcast")
    .Input("tensor: T")
    .Output("output: T")
    .Attr("T: " TFC_BROADCASTABLE_TYPES)
    .Attr("tensor_name: string = ''")
    .Attr("root_rank: int = 0")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(SameShapes);

REGISTER_OP("Collectives>GroupedBroadcast")
    .Input("tensors: T")
    .Output("outputs: T")
    .Attr("T: list(" TFC_BROADCASTABLE_TYPES ") >= 1")
    .Attr("tensor_name: string = ''")
    .Attr("root_rank: int = 0")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(SameShapes);

REGISTER_OP("Collectives>BroadcastVariables")
    .Input("resources: N * resource")
    .Attr("N: int >= 1")
    .Attr("dtypes: list(" TFC_BROADCASTABLE_TYPES ") >= 1")
    .Attr("tensor_name: string = ''")
    .Attr("root_rank: int = 0")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext*) { return absl::OkStatus(); });

// CPU and GPU kernels.

class BroadcastKernelBase : public CollectiveKernel {
 public:
  explicit BroadcastKernelBase(tensorflow::OpKernelConstruction* construction)
      : CollectiveKernel(construction, CollectiveKind::kBroadcast) {
    OP_REQUIRES_OK(construction, construction->GetAttr("root_rank", &root_rank_));
  }

 protected:
  /// Sets the root and tells whether this rank is it.
  Status PrepareRoot(Operation* operation, bool* is_root) const {
    Topology topology;
    TFC_RETURN_IF_ERROR(Runtime::Get().GetTopology(&topology));
    if (root_rank_ < 0 || root_rank_ >= topology.size) {
      return {StatusCode::kInvalidArgument,
              "root_rank " + std::to_string(root_rank_) + " on rank " + std::to_string(topology.rank) +
                  " is no rank of this job. Pass one from 0 to " + std::to_string(topology.size - 1) + "."};
    }
    operation->request.root_rank = root_rank_;
    *is_root = topology.rank == root_rank_;
    return Status::Ok();
  }

 private:
  int root_rank_ = 0;
};

class BroadcastKernel : public BroadcastKernelBase {
 public:
  using BroadcastKernelBase::BroadcastKernelBase;

 protected:
  Status Prepare(tensorflow::OpKernelContext* context, Operation* operation, std::function<void()>*) override {
    bool is_root;
    TFC_RETURN_IF_ERROR(PrepareRoot(operation, &is_root));
    for (int i = 0; i < context->num_inputs(); ++i) {
      const tensorflow::Tensor& input = context->input(i);
      TFC_RETURN_IF_ERROR(SpecOf(input.dtype(), input.shape(), &operation->request.tensors.emplace_back()));
      tensorflow::Tensor* output = nullptr;
      if (is_root) {
        // The root's result is its input.
        context->set_output(i, input);
        output = context->mutable_output(i);
      } else if (!context->forward_input_to_output_with_shape(i, i, input.shape(), &output)) {
        TFC_RETURN_IF_ERROR(AllocateOutput(context, i, input.shape(), &output));
      }
      operation->inputs.push_back(input.data());
      operation->outputs.push_back(output->data());
    }
    return Status::Ok();
  }
};

class BroadcastVariablesKernel : public BroadcastKernelBase {
 public:
  explicit BroadcastVariablesKernel(tensorflow::OpKernelConstruction* construction)
      : BroadcastKernelBase(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("dtypes", &dtypes_));
  }

 protected:
  Status Prepare(tensorflow::OpKernelContext* context, Operation* operation,
                 std::function<void()>* on_success) override {
    bool is_root;
    TFC_RETURN_IF_ERROR(PrepareRoot(operation, &is_root));
    auto received = std::make_shared<std::vector<Received>>(context->num_inputs());
    for (int i = 0; i < context->num_inputs(); ++i) {
      TFC_RETURN_IF_ERROR(PrepareVariable(context, i, is_root, &(*received)[i], operation));
    }
    // Keeps the variables and the memory alive; the variables change only after all of it has arrived.
    *on_success = [received, is_root] {
      if (is_root) return;
      for (Received& each : *received) {
        tensorflow::mutex_lock lock(*each.variable->mu());
        *each.variable->tensor() = each.tensor;
      }
    };
    return Status::Ok();
  }

 private:
  struct Received {
    tensorflow::core::RefCountPtr<tensorflow::Var> variable;
    tensorflow::Tensor tensor;
  };

  Status PrepareVariable(tensorflow::OpKernelContext* context, int index, bool is_root, Received* received,
                         Operation* operation) const {
    const tensorflow::ResourceHandle& handle = tensorflow::HandleFromInput(context, index);
    TFC_RETURN_IF_ERROR(FromTensorFlow(tensorflow::LookupResource(context, handle, &received->variable)));
    tensorflow::Tensor current;
    {
      tensorflow::tf_shared_lock lock(*received->variable->mu());
      current = *received->variable->tensor();
    }
    if (!current.IsInitialized() || current.dtype() != dtypes_[index]) {
      return {StatusCode::kFailedPrecondition, "variable '" + handle.name() +
                                                   "' is not initialized, or not of the dtype that was "
                                                   "announced. Initialize or build it before broadcasting."};
    }
    TFC_RETURN_IF_ERROR(SpecOf(current.dtype(), current.shape(), &operation->request.tensors.emplace_back()));
    received->tensor = current;
    if (!is_root) {
      TFC_RETURN_IF_ERROR(FromTensorFlow(context->allocate_temp(current.dtype(), current.shape(), &received->tensor)));
    }
    operation->inputs.push_back(current.data());
    operation->outputs.push_back(received->tensor.data());
    return Status::Ok();
  }

  tensorflow::DataTypeVector dtypes_;
};

// Registration.

REGISTER_KERNEL_BUILDER(Name("Collectives>Broadcast").Device(tensorflow::DEVICE_CPU), BroadcastKernel);
REGISTER_KERNEL_BUILDER(Name("Collectives>Broadcast").Device(tensorflow::DEVICE_GPU), BroadcastKernel);
REGISTER_KERNEL_BUILDER(Name("Collectives>GroupedBroadcast").Device(tensorflow::DEVICE_CPU), BroadcastKernel);
REGISTER_KERNEL_BUILDER(Name("Collectives>GroupedBroadcast").Device(tensorflow::DEVICE_GPU), BroadcastKernel);
REGISTER_KERNEL_BUILDER(Name("Collectives>BroadcastVariables").Device(tensorflow::DEVICE_CPU),
                        BroadcastVariablesKernel);
REGISTER_KERNEL_BUILDER(Name("Collectives>BroadcastVariables").Device(tensorflow::DEVICE_GPU).HostMemory("resources"),
                        BroadcastVariablesKernel);

}  // namespace tf_collectives
