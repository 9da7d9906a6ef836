#pragma once

#include "tensorflow/core/framework/op_kernel.h"

namespace tf_collectives {

/// The stream on which TensorFlow computes around this op, as an opaque CUstream.
void* GpuStream(tensorflow::OpKernelContext* context);

}  // namespace tf_collectives
