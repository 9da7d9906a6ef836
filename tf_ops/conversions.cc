#include "conversions.h"

#include "tensorflow/core/framework/types.h"

namespace tf_collectives {

absl::Status ToTensorFlow(const Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.code()), status.message());
}

Status FromTensorFlow(const absl::Status& status) {
  return {static_cast<StatusCode>(status.code()), std::string(status.message())};
}

Status SpecOf(tensorflow::DataType dtype, const tensorflow::TensorShape& shape, TensorSpec* spec) {
  // TensorFlow says "float" where everybody else says "float32".
  std::string name = tensorflow::DataTypeString(dtype);
  if (dtype == tensorflow::DT_FLOAT) name = "float32";
  if (dtype == tensorflow::DT_DOUBLE) name = "float64";
  if (dtype == tensorflow::DT_HALF) name = "float16";
  if (!ParseDataType(name, &spec->dtype)) {
    return {StatusCode::kInvalidArgument,
            "tensors of type " + name + " cannot be sent. Cast to a numeric type or bool first."};
  }
  for (int i = 0; i < shape.dims(); ++i) spec->shape.push_back(shape.dim_size(i));
  return Status::Ok();
}

}  // namespace tf_collectives
