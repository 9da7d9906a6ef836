#include <elf.h>

#include <cstring>

#include "support.h"

namespace cuda_standin::testing {
namespace {

const std::pair<const std::string, std::string> kKernels = {"CUDA_STANDIN_KERNELS", TEST_KERNELS};

const char kPtx[] =
    ".version 8.0\n.target sm_70\n.visible .entry scale(\n.visible .entry launch_size(\n.visible .entry "
    "unknown(\n";

CUfunction Function(const char* name) {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  CHECK_CUDA(cuModuleLoadData(&module, kPtx));
  CHECK_CUDA(cuModuleGetFunction(&function, module, name));
  return function;
}

CUresult Launch(CUfunction function, CUstream stream, std::vector<void*> parameters, unsigned blocks = 1,
                unsigned threads = 32) {
  return cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, parameters.data(), nullptr);
}

CUresult Scale(CUstream stream, CUdeviceptr values, float factor, int count) {
  return Launch(Function("scale"), stream, {&values, &factor, &count});
}

STANDIN_TEST(AKernelRunsInStreamOrderWithCopiesOfItsParameters, {kKernels}) {
  UseDevice(0);
  CUstream stream = NewStream();
  const Array<float> values(std::vector<float>{1, 2, 3});
  CHECK_CUDA(Scale(stream, values.address(), 2, 2));
  CHECK_CUDA(Scale(stream, values.address(), 10, 3));
  CHECK_CUDA(cuStreamSynchronize(stream));
  CHECK_EQ(values.Read(), (std::vector<float>{20, 40, 30}));
}

STANDIN_TEST(AKernelKnowsItsLaunch, {kKernels}) {
  UseDevice(0);
  CUstream stream = NewStream();
  const Array<unsigned> result(1);
  CUdeviceptr pointer = result.address();
  CHECK_CUDA(Launch(Function("launch_size"), stream, {&pointer}, 3, 128));
  CHECK_CUDA(cuStreamSynchronize(stream));
  CHECK_EQ(result.Read(), std::vector<unsigned>{384});
  CHECK_EQ(Launch(Function("launch_size"), stream, {&pointer}, 0), CUDA_ERROR_INVALID_VALUE);
  CHECK_EQ(Launch(Function("launch_size"), stream, {&pointer}, 1, 2048), CUDA_ERROR_INVALID_VALUE);
}

STANDIN_TEST(AKernelThatReachesTooFarIsAStickyError, {kKernels}) {
  UseDevice(0);
  CUstream stream = NewStream();
  const Array<float> values(3);
  CHECK_CUDA(Scale(stream, values.address(), 2, 4));
  CHECK_EQ(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  const char* text = nullptr;
  CHECK_CUDA(cuGetErrorString(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
  CHECK_CONTAINS(std::string(text), "kernel scale reached for 16 bytes at offset 0 of an allocation of 12 bytes");
  CHECK_EQ(cuMemsetD8(values.address(), 0, 4), CUDA_ERROR_ILLEGAL_ADDRESS);
}

STANDIN_TEST(AKernelMayNotTouchAnotherDevice, {kKernels}) {
  UseDevice(1);
  const Array<float> values(3);
  UseDevice(0);
  CUstream stream = NewStream();
  CHECK_CUDA(Scale(stream, values.address(), 2, 3));
  CHECK_EQ(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
}

STANDIN_TEST(AForeignKernelIsAStickyError, {kKernels}) {
  UseDevice(0);
  CUstream stream = NewStream();
  const Array<float> values(3);
  CHECK_EQ(Launch(Function("unknown"), stream, {}), CUDA_ERROR_LAUNCH_FAILED);
  CHECK_EQ(cuStreamSynchronize(stream), CUDA_ERROR_LAUNCH_FAILED);
  CHECK_EQ(Scale(stream, values.address(), 2, 3), CUDA_ERROR_LAUNCH_FAILED);
  const char* text = nullptr;
  CHECK_CUDA(cuGetErrorString(CUDA_ERROR_LAUNCH_FAILED, &text));
  CHECK_CONTAINS(std::string(text), "kernel unknown was launched");
}

STANDIN_TEST(AKernelHasToBeInItsModule, {kKernels}) {
  UseDevice(0);
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  CHECK_CUDA(cuModuleLoadData(&module, kPtx));
  CHECK_EQ(cuModuleGetFunction(&function, module, "scal"), CUDA_ERROR_NOT_FOUND);
  CHECK_CUDA(cuModuleGetFunction(&function, module, "scale"));
  CHECK_CUDA(cuModuleUnload(module));
  CHECK_EQ(Launch(function, NewStream(), {}), CUDA_ERROR_INVALID_HANDLE);
}

STANDIN_TEST(CodeForAnotherGpuIsRefused, {{"CUDA_STANDIN_COMPUTE_CAPABILITY", "8.6"}}) {
  UseDevice(0);
  CUmodule module = nullptr;
  for (const auto& [capability, result] :
       {std::pair(80u, CUDA_SUCCESS), std::pair(86u, CUDA_SUCCESS), std::pair(89u, CUDA_ERROR_NO_BINARY_FOR_GPU),
        std::pair(75u, CUDA_ERROR_NO_BINARY_FOR_GPU)}) {
    Elf64_Ehdr cubin = {};
    std::memcpy(cubin.e_ident, ELFMAG, SELFMAG);
    cubin.e_ident[EI_ABIVERSION] = 7;
    cubin.e_flags = capability;
    CHECK_EQ(cuModuleLoadData(&module, &cubin), result);
  }
  CHECK_EQ(cuModuleLoadData(&module, ".version 8.0\n.target sm_90\n"), CUDA_ERROR_NO_BINARY_FOR_GPU);
}

}  // namespace
}  // namespace cuda_standin::testing
