// cudaStream*, cudaEvent* and host functions.

#include "runtime/driver.h"

#pragma GCC visibility push(default)

using namespace cuda_standin;

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* stream) { RETURN_DRIVER(DRIVER(cuStreamCreate)(stream, 0)); }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  RETURN_DRIVER(DRIVER(cuStreamCreate)(stream, flags));
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  RETURN_DRIVER(DRIVER(cuStreamCreateWithPriority)(stream, flags, priority));
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) { RETURN_DRIVER(DRIVER(cuStreamDestroy)(Driver(stream))); }

cudaError_t cudaStreamQuery(cudaStream_t stream) { RETURN_DRIVER(DRIVER(cuStreamQuery)(Driver(stream))); }

cudaError_t cudaStreamSynchronize(cudaStream_t stream) { RETURN_DRIVER(DRIVER(cuStreamSynchronize)(Driver(stream))); }

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  RETURN_DRIVER(DRIVER(cuStreamWaitEvent)(Driver(stream), Driver(event), flags));
}

cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  RETURN_DRIVER(DRIVER(cuStreamGetPriority)(Driver(stream), priority));
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument) {
  RETURN_DRIVER(DRIVER(cuLaunchHostFunc)(Driver(stream), function, argument));
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t function, void* argument, unsigned flags) {
  RETURN_DRIVER(
      DRIVER(cuStreamAddCallback)(Driver(stream), reinterpret_cast<CUstreamCallback>(function), argument, flags));
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { RETURN_DRIVER(DRIVER(cuEventCreate)(event, 0)); }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  RETURN_DRIVER(DRIVER(cuEventCreate)(event, flags));
}

cudaError_t cudaEventDestroy(cudaEvent_t event) { RETURN_DRIVER(DRIVER(cuEventDestroy)(Driver(event))); }

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  RETURN_DRIVER(DRIVER(cuEventRecord)(Driver(event), Driver(stream)));
}

cudaError_t cudaEventQuery(cudaEvent_t event) { RETURN_DRIVER(DRIVER(cuEventQuery)(Driver(event))); }

cudaError_t cudaEventSynchronize(cudaEvent_t event) { RETURN_DRIVER(DRIVER(cuEventSynchronize)(Driver(event))); }

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  RETURN_DRIVER(DRIVER(cuEventElapsedTime)(milliseconds, Driver(start), Driver(end)));
}

}  // extern "C"
