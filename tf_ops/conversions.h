#pragma once

#include "absl/status/status.h"
#include "tensorflow/core/framework/tensor.h"
#include "tf_collectives/request.h"
#include "tf_collectives/status.h"

namespace tf_collectives {

absl::Status ToTensorFlow(const Status& status);
Status FromTensorFlow(const absl::Status& status);

/// Dtype and shape of a tensor in the runtime's terms. Fails for types that the runtime doesn't carry.
Status SpecOf(tensorflow::DataType dtype, const tensorflow::TensorShape& shape, TensorSpec* spec);

}  // namespace tf_collectives
