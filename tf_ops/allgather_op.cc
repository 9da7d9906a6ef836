#include <numeric>

#include "collective_kernel.h"
#include "conversions.h"
#include "shape_functions.h"
#include "tensorflow/core/framework/op.h"
#include "tf_collectives/runtime.h"

namespace tf_collectives {
namespace {

using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

/// Each output has its input's shape but for the first dimension; the last output holds the sizes.
absl::Status GatheredShapes(InferenceContext* context) {
  const int tensors = context->num_inputs();
  for (int i = 0; i < tensors; ++i) {
    ShapeHandle input, output;
    TF_RETURN_IF_ERROR(context->WithRankAtLeast(context->input(i), 1, &input));
    output = context->input(i);
    if (context->RankKnown(input)) TF_RETURN_IF_ERROR(context->ReplaceDim(input, 0, context->UnknownDim(), &output));
    context->set_output(i, output);
  }
  return absl::OkStatus();
}

absl::Status SingleShape(InferenceContext* context) {
  context->set_output(1, context->Vector(InferenceContext::kUnknownDim));
  return GatheredShapes(context);
}

absl::Status GroupedShape(InferenceContext* context) {
  context->set_output(context->num_inputs(), context->Matrix(context->num_inputs(), InferenceContext::kUnknownDim));
  return GatheredShapes(context);
}

}  // namespace

// Ops. Stateful, because nothing else keeps Grappler from merging, folding and pruning them; marked as communication,
// because TensorFlow hides an UnavailableError of any other op.

#define TFC_GATHERABLE_TYPES                                                                                    \
  "{uint8, int8, uint16, int16, uint32, int32, uint64, int64, half, bfloat16, float, double, bool, complex64, " \
  "complex128}"

REGISTER_OP("Collectives>AllGather")
    .Input("tensor: T")
    .Output("output: T")
    .Output("sizes: int64")
    .Attr("T: " TFC_GATHERABLE_TYPES)
    .Attr("tensor_name: string = ''")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(SingleShape);

REGISTER_OP("Collectives>GroupedAllGather")
    .Input("tensors: T")
    .Output("outputs: T")
    .Output("sizes: int64")
    .Attr("T: list(" TFC_GATHERABLE_TYPES ") >= 1")
    .Attr("tensor_name: string = ''")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(GroupedShape);

// CPU and GPU kernel.

template <bool grouped>
class AllGatherKernel : public CollectiveKernel {
 public:
  explicit AllGatherKernel(tensorflow::OpKernelConstruction* construction)
      : CollectiveKernel(construction, CollectiveKind::kAllGather) {}

 protected:
  Status Prepare(tensorflow::OpKernelContext* context, Operation* operation, std::function<void()>*) override {
    for (int i = 0; i < context->num_inputs(); ++i) {
      const tensorflow::Tensor& input = context->input(i);
      if (input.dims() == 0) {
        return {StatusCode::kInvalidArgument, "tensor " + std::to_string(i) +
                                                  " is a scalar, which has no first dimension to gather along. "
                                                  "Reshape it to [1]."};
      }
      TFC_RETURN_IF_ERROR(SpecOf(input.dtype(), input.shape(), &operation->request.tensors.emplace_back()));
      operation->inputs.push_back(input.data());
    }
    operation->allocate_outputs = [this, context, operation](const GatherSizes& sizes) {
      return AllocateOutputs(context, operation, sizes);
    };
    return Status::Ok();
  }

 private:
  Status AllocateOutputs(tensorflow::OpKernelContext* context, Operation* operation, const GatherSizes& sizes) const {
    const int tensors = context->num_inputs();
    const auto ranks = static_cast<int64_t>(sizes[0].size());
    for (int i = 0; i < tensors; ++i) {
      tensorflow::TensorShape shape = context->input(i).shape();
      shape.set_dim(0, std::accumulate(sizes[i].begin(), sizes[i].end(), int64_t{0}));
      tensorflow::Tensor* output = nullptr;
      TFC_RETURN_IF_ERROR(AllocateOutput(context, i, shape, &output));
      operation->outputs.push_back(output->data());
    }
    const auto sizes_shape = grouped ? tensorflow::TensorShape({tensors, ranks}) : tensorflow::TensorShape({ranks});
    tensorflow::Tensor* sizes_output = nullptr;
    TFC_RETURN_IF_ERROR(FromTensorFlow(context->allocate_output(tensors, sizes_shape, &sizes_output)));
    auto* values = static_cast<int64_t*>(sizes_output->data());
    for (int i = 0; i < tensors; ++i) std::copy(sizes[i].begin(), sizes[i].end(), values + i * ranks);
    return Status::Ok();
  }
};

// Registration.

REGISTER_KERNEL_BUILDER(Name("Collectives>AllGather").Device(tensorflow::DEVICE_CPU), AllGatherKernel<false>);
REGISTER_KERNEL_BUILDER(Name("Collectives>AllGather").Device(tensorflow::DEVICE_GPU).HostMemory("sizes"),
                        AllGatherKernel<false>);
REGISTER_KERNEL_BUILDER(Name("Collectives>GroupedAllGather").Device(tensorflow::DEVICE_CPU), AllGatherKernel<true>);
REGISTER_KERNEL_BUILDER(Name("Collectives>GroupedAllGather").Device(tensorflow::DEVICE_GPU).HostMemory("sizes"),
                        AllGatherKernel<true>);

}  // namespace tf_collectives
