#include "gpu_stream.h"

#include "xla/stream_executor/stream.h"

namespace tf_collectives {

void* GpuStream(tensorflow::OpKernelContext* context) {
  return context->op_device_context()->stream()->platform_specific_handle().stream;
}

}  // namespace tf_collectives
