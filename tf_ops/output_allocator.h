#pragma once

#include "absl/status/status.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_collectives {

/// Makes output `index`. Large ones come from memory that earlier outputs have freed: the page faults of fresh memory
/// cost as much as the whole collective.
absl::Status AllocateCpuOutput(tensorflow::OpKernelContext* context, int index, const tensorflow::TensorShape& shape,
                               tensorflow::Tensor** output);

}  // namespace tf_collectives
