#include <signal.h>

#include "support.h"

namespace cuda_standin::testing {
namespace {

STANDIN_TEST(CopiesGoToTheDeviceAndBack, {}) {
  UseDevice(0);
  const Array<int> first(std::vector<int>{1, 2, 3});
  const Array<int> second(3);
  CHECK_CUDA(cuMemcpyDtoD(second.address(), first.address(), first.bytes()));
  CHECK_EQ(second.Read(), (std::vector<int>{1, 2, 3}));
  CHECK_CUDA(cuMemsetD32(second.address(), 7, 2));
  CHECK_EQ(second.Read(), (std::vector<int>{7, 7, 3}));
}

STANDIN_TEST(ACopyFromOneDeviceToAnother, {}) {
  UseDevice(0);
  const Array<int> first(std::vector<int>{1, 2, 3});
  UseDevice(1);
  const Array<int> second(3);
  CHECK_CUDA(cuMemcpyDtoD(second.address(), first.address(), first.bytes()));
  CHECK_EQ(second.Read(), (std::vector<int>{1, 2, 3}));
}

// A sanitizer ends the process with a code of its own.
bool Crashed(const Ended& ended) { return ended.code == -SIGSEGV || ended.errors.find("SEGV") != std::string::npos; }

TEST(TheProgramCantTouchDeviceMemory) {
  const Ended read = RunProcess({}, [] {
    UseDevice(0);
    const Array<int> array(std::vector<int>{1});
    const volatile int value = *array.pointer();
    (void)value;
  });
  CHECK(Crashed(read));
  const Ended written = RunProcess({}, [] {
    UseDevice(0);
    const Array<int> array(std::vector<int>{1});
    *const_cast<volatile int*>(array.pointer()) = 1;
  });
  CHECK(Crashed(written));
}

STANDIN_TEST(ACopyOutOfBoundsIsRefused, {}) {
  UseDevice(0);
  const Array<int> array(3);
  std::vector<int> host(4);
  CHECK_EQ(cuMemcpyDtoH(host.data(), array.address(), 16), CUDA_ERROR_INVALID_VALUE);
  CHECK_EQ(cuMemcpyHtoD(array.address() + 4, host.data(), 12), CUDA_ERROR_INVALID_VALUE);
  CHECK_EQ(cuMemsetD8(array.address(), 0, 13), CUDA_ERROR_INVALID_VALUE);
}

STANDIN_TEST(FreedMemoryIsRefused, {}) {
  UseDevice(0);
  Array<int> array(3);
  array.Free();
  std::vector<int> host(3);
  CHECK_EQ(cuMemcpyDtoH(host.data(), array.address(), 12), CUDA_ERROR_INVALID_VALUE);
  CHECK_EQ(cuMemFree(array.address()), CUDA_ERROR_INVALID_VALUE);
}

STANDIN_TEST(MemoryThatIsFreedBeforeItsCopyRunsIsAStickyError,
             {{"CUDA_STANDIN_FAULTS", "cuMemcpyDtoDAsync=delay:50"}}) {
  UseDevice(0);
  CUstream stream = NewStream();
  CUstream other = NewStream();
  const Array<int> from(3);
  const Array<int> to(3);
  CHECK_CUDA(cuMemcpyDtoDAsync(to.address(), from.address(), 12, stream));
  CHECK_CUDA(cuMemFreeAsync(from.address(), other));
  CHECK_EQ(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  const char* text = nullptr;
  CHECK_CUDA(cuGetErrorString(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
  CHECK_CONTAINS(std::string(text), "isn't in a live allocation");
}

STANDIN_TEST(MemoryIsReused, {{"CUDA_STANDIN_MEMORY_MB", "1"}}) {
  UseDevice(0);
  CUdeviceptr pointers[4];
  for (int round = 0; round < 10; ++round) {
    for (CUdeviceptr& pointer : pointers) CHECK_CUDA(cuMemAlloc(&pointer, 256 << 10));
    CUdeviceptr more = 0;
    CHECK_EQ(cuMemAlloc(&more, 1), CUDA_ERROR_OUT_OF_MEMORY);
    for (const int index : {1, 3, 0, 2}) CHECK_CUDA(cuMemFree(pointers[index]));
  }
  size_t free = 0;
  size_t total = 0;
  CHECK_CUDA(cuMemGetInfo(&free, &total));
  CHECK_EQ(free, total);
}

STANDIN_TEST(VisibleDevicesKeepTheirIdentity, {{"CUDA_STANDIN_DEVICES", "4"}, {"CUDA_VISIBLE_DEVICES", "2,0"}}) {
  CHECK_CUDA(cuInit(0));
  int count = 0;
  CHECK_CUDA(cuDeviceGetCount(&count));
  CHECK_EQ(count, 2);
  CUuuid uuid;
  CHECK_CUDA(cuDeviceGetUuid(&uuid, 0));
  CHECK_EQ(uuid.bytes[15], 3);
  char id[32];
  CHECK_CUDA(cuDeviceGetPCIBusId(id, sizeof id, 1));
  CUdevice device = -1;
  CHECK_CUDA(cuDeviceGetByPCIBusId(&device, id));
  CHECK_EQ(device, 1);
}

STANDIN_TEST(NoCallWithoutAContext, {}) {
  CHECK_CUDA(cuInit(0));
  CUdeviceptr pointer = 0;
  CHECK_EQ(cuMemAlloc(&pointer, 4), CUDA_ERROR_INVALID_CONTEXT);
  CUstream stream = nullptr;
  CHECK_EQ(cuStreamCreate(&stream, 0), CUDA_ERROR_INVALID_CONTEXT);
}

}  // namespace
}  // namespace cuda_standin::testing
