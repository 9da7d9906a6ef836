#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "collective_kernel.h"
#include "conversions.h"
#include "shape_functions.h"
#include "tensorflow/core/framework/op.h"

namespace tf_collectives {

// Ops. Stateful, because nothing else keeps Grappler from merging, folding and pruning them; marked as communication,
// because TensorFlow hides an UnavailableError of any other op. The scale factors are decimal text, because an
// attribute of type float has single precision only.

#define TFC_REDUCIBLE_TYPES "{uint8, int8, int32, int64, half, bfloat16, float, double}"

REGISTER_OP("Collectives>AllReduce")
    .Input("tensor: T")
    .Output("output: T")
    .Attr("T: " TFC_REDUCIBLE_TYPES)
    .Attr("tensor_name: string = ''")
    .Attr("reduce_op: {'sum', 'average', 'min', 'max', 'product'} = 'sum'")
    .Attr("prescale_factor: string = '1'")
    .Attr("postscale_factor: string = '1'")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(SameShapes);

REGISTER_OP("Collectives>GroupedAllReduce")
    .Input("tensors: T")
    .Output("outputs: T")
    .Attr("T: list(" TFC_REDUCIBLE_TYPES ") >= 1")
    .Attr("tensor_name: string = ''")
    .Attr("reduce_op: {'sum', 'average', 'min', 'max', 'product'} = 'sum'")
    .Attr("prescale_factor: string = '1'")
    .Attr("postscale_factor: string = '1'")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(SameShapes);

// CPU and GPU kernel.

class AllReduceKernel : public CollectiveKernel {
 public:
  explicit AllReduceKernel(tensorflow::OpKernelConstruction* construction)
      : CollectiveKernel(construction, CollectiveKind::kAllReduce) {
    std::string reduce_op;
    OP_REQUIRES_OK(construction, construction->GetAttr("reduce_op", &reduce_op));
    ParseReduceOp(reduce_op, &reduce_op_);
    OP_REQUIRES_OK(construction, GetFactor(construction, "prescale_factor", &prescale_factor_));
    OP_REQUIRES_OK(construction, GetFactor(construction, "postscale_factor", &postscale_factor_));
  }

 protected:
  Status Prepare(tensorflow::OpKernelContext* context, Operation* operation, std::function<void()>*) override {
    Request& request = operation->request;
    request.reduce_op = reduce_op_;
    request.prescale_factor = prescale_factor_;
    request.postscale_factor = postscale_factor_;
    for (int i = 0; i < context->num_inputs(); ++i) {
      const tensorflow::Tensor& input = context->input(i);
      TFC_RETURN_IF_ERROR(SpecOf(input.dtype(), input.shape(), &request.tensors.emplace_back()));
      tensorflow::Tensor* output = nullptr;
      // An input that nobody else needs is reduced in place.
      if (!context->forward_input_to_output_with_shape(i, i, input.shape(), &output)) {
        TFC_RETURN_IF_ERROR(AllocateOutput(context, i, input.shape(), &output));
      }
      operation->inputs.push_back(input.data());
      operation->outputs.push_back(output->data());
    }
    return Status::Ok();
  }

 private:
  static absl::Status GetFactor(tensorflow::OpKernelConstruction* construction, const char* name, double* factor) {
    std::string text;
    TF_RETURN_IF_ERROR(construction->GetAttr(name, &text));
    if (absl::SimpleAtod(text, factor)) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(name, "='", text, "' is not a number."));
  }

  ReduceOp reduce_op_ = ReduceOp::kSum;
  double prescale_factor_ = 1.0;
  double postscale_factor_ = 1.0;
};

// Registration.

REGISTER_KERNEL_BUILDER(Name("Collectives>AllReduce").Device(tensorflow::DEVICE_CPU), AllReduceKernel);
REGISTER_KERNEL_BUILDER(Name("Collectives>AllReduce").Device(tensorflow::DEVICE_GPU), AllReduceKernel);
REGISTER_KERNEL_BUILDER(Name("Collectives>GroupedAllReduce").Device(tensorflow::DEVICE_CPU), AllReduceKernel);
REGISTER_KERNEL_BUILDER(Name("Collectives>GroupedAllReduce").Device(tensorflow::DEVICE_GPU), AllReduceKernel);

}  // namespace tf_collectives
