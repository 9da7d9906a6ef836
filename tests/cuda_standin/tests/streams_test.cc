#include <atomic>
#include <future>

#include "support.h"

namespace cuda_standin::testing {
namespace {

/// A host function that waits, so that what is behind it on its stream can't have run.
class Gate {
 public:
  explicit Gate(CUstream stream) {
    CHECK_CUDA(
        cuLaunchHostFunc(stream, [](void* gate) { static_cast<Gate*>(gate)->opened_.get_future().wait(); }, this));
  }
  void Open() { opened_.set_value(); }

 private:
  std::promise<void> opened_;
};

CUevent NewEvent() {
  CUevent event = nullptr;
  CHECK_CUDA(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  return event;
}

STANDIN_TEST(AStreamRunsBehindTheProgram, {}) {
  UseDevice(0);
  CUstream stream = NewStream();
  CUevent event = NewEvent();
  const Array<int> array(std::vector<int>{1});
  Gate gate(stream);
  CHECK_CUDA(cuMemsetD32Async(array.address(), 2, 1, stream));
  CHECK_CUDA(cuEventRecord(event, stream));
  CHECK_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  CHECK_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
  gate.Open();
  CHECK_CUDA(cuEventSynchronize(event));
  CHECK_CUDA(cuEventQuery(event));
  CHECK_EQ(array.Read(), std::vector<int>{2});
}

STANDIN_TEST(AStreamWaitsForAnEventOfAnother, {}) {
  UseDevice(0);
  CUstream first = NewStream();
  CUstream second = NewStream();
  CUevent event = NewEvent();
  const Array<int> array(std::vector<int>{1});
  Gate gate(first);
  CHECK_CUDA(cuMemsetD32Async(array.address(), 2, 1, first));
  CHECK_CUDA(cuEventRecord(event, first));
  CHECK_CUDA(cuStreamWaitEvent(second, event, 0));
  CHECK_CUDA(cuMemsetD32Async(array.address(), 3, 1, second));
  CHECK_EQ(cuStreamQuery(second), CUDA_ERROR_NOT_READY);
  // A later record doesn't change what the second stream waits for.
  Gate later(first);
  CHECK_CUDA(cuEventRecord(event, first));
  gate.Open();
  CHECK_CUDA(cuStreamSynchronize(second));
  CHECK_EQ(array.Read(), std::vector<int>{3});
  later.Open();
}

STANDIN_TEST(TheDefaultStreamWaitsForBlockingStreamsAndTheyForIt, {}) {
  UseDevice(0);
  CUstream blocking = nullptr;
  CHECK_CUDA(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
  const Array<int> array(std::vector<int>{1});
  Gate gate(blocking);
  CHECK_CUDA(cuMemsetD32Async(array.address(), 2, 1, blocking));
  CHECK_CUDA(cuMemsetD32Async(array.address(), 3, 1, nullptr));
  CHECK_CUDA(cuMemsetD32Async(array.address(), 4, 1, blocking));
  CHECK_EQ(cuStreamQuery(nullptr), CUDA_ERROR_NOT_READY);
  gate.Open();
  CHECK_CUDA(cuStreamSynchronize(blocking));
  CHECK_EQ(array.Read(), std::vector<int>{4});
}

CUresult result_in_host_function = CUDA_SUCCESS;

STANDIN_TEST(ACudaCallInAHostFunctionIsRefused, {}) {
  UseDevice(0);
  CUstream stream = NewStream();
  CHECK_CUDA(cuLaunchHostFunc(
      stream,
      [](void*) {
        CUdeviceptr pointer = 0;
        result_in_host_function = cuMemAlloc(&pointer, 4);
      },
      nullptr));
  CHECK_CUDA(cuStreamSynchronize(stream));
  CHECK_EQ(result_in_host_function, CUDA_ERROR_NOT_PERMITTED);
}

STANDIN_TEST(DestroyedHandlesAreRefused, {}) {
  UseDevice(0);
  CUstream stream = NewStream();
  CUevent event = NewEvent();
  CHECK_CUDA(cuStreamDestroy(stream));
  CHECK_EQ(cuEventRecord(event, stream), CUDA_ERROR_INVALID_HANDLE);
  CHECK_EQ(cuStreamDestroy(stream), CUDA_ERROR_INVALID_HANDLE);
  CHECK_CUDA(cuEventDestroy(event));
  CHECK_EQ(cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
}

STANDIN_TEST(ADestroyedStreamRunsToItsEnd, {}) {
  UseDevice(0);
  CUstream stream = NewStream();
  CUevent event = NewEvent();
  Gate gate(stream);
  CHECK_CUDA(cuEventRecord(event, stream));
  CHECK_CUDA(cuStreamDestroy(stream));
  gate.Open();
  CHECK_CUDA(cuEventSynchronize(event));
}

STANDIN_TEST(AnEventBelongsToItsDevice, {}) {
  UseDevice(0);
  CUevent event = NewEvent();
  UseDevice(1);
  CHECK_EQ(cuEventRecord(event, NewStream()), CUDA_ERROR_INVALID_HANDLE);
}

STANDIN_TEST(ACopyFromPageableMemoryHasReadIt, {}) {
  UseDevice(0);
  CUstream stream = NewStream();
  const Array<int> array(1);
  std::vector<int> host{1};
  Gate gate(stream);
  CHECK_CUDA(cuMemcpyHtoDAsync(array.address(), host.data(), 4, stream));
  host[0] = 2;
  gate.Open();
  CHECK_CUDA(cuStreamSynchronize(stream));
  CHECK_EQ(array.Read(), std::vector<int>{1});
}

STANDIN_TEST(ACopyFromPinnedMemoryReadsItWhenItRuns, {}) {
  UseDevice(0);
  CUstream stream = NewStream();
  const Array<int> array(1);
  int* host = nullptr;
  CHECK_CUDA(cuMemHostAlloc(reinterpret_cast<void**>(&host), 4, 0));
  *host = 1;
  Gate gate(stream);
  CHECK_CUDA(cuMemcpyHtoDAsync(array.address(), host, 4, stream));
  *host = 2;
  gate.Open();
  CHECK_CUDA(cuStreamSynchronize(stream));
  CHECK_EQ(array.Read(), std::vector<int>{2});
}

}  // namespace
}  // namespace cuda_standin::testing
