// What compiled CUDA code calls to register its kernels, and launches of them.

#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "common/call_log.h"
#include "runtime/driver.h"

#pragma GCC visibility push(default)

using namespace cuda_standin;

namespace {

struct Configuration {
  dim3 grid;
  dim3 block;
  size_t shared_bytes;
  void* stream;
};

thread_local Configuration pushed_configuration;

std::mutex& Mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

std::map<const void*, std::string>& Names() {
  static auto* names = new std::map<const void*, std::string>;
  return *names;
}

std::string NameOf(const void* function) {
  const std::lock_guard<std::mutex> lock(Mutex());
  const auto found = Names().find(function);
  return found == Names().end() ? "of unknown name" : found->second;
}

cudaError_t Launch(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                   cudaStream_t stream) {
  const unsigned grid_size[] = {grid.x, grid.y, grid.z};
  const unsigned block_size[] = {block.x, block.y, block.z};
  RETURN_DRIVER(LaunchKernel(NameOf(function), Driver(stream), grid_size, block_size,
                             static_cast<unsigned>(shared_bytes), arguments));
}

}  // namespace

extern "C" {

void** __cudaRegisterFatBinary(void*) {
  static void* handle[4];
  return handle;
}

void __cudaRegisterFatBinaryEnd(void**) {}

void __cudaUnregisterFatBinary(void**) {}

char __cudaInitModule(void**) { return 0; }

void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, void*, void*, void*, void*, int*) {
  const std::lock_guard<std::mutex> lock(Mutex());
  Names()[host] = name;
}

void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}

void __cudaRegisterManagedVar(void**, void**, char*, const char*, int, size_t, int, int) {}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, void* stream) {
  pushed_configuration = {grid, block, shared_bytes, stream};
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes, void* stream) {
  *grid = pushed_configuration.grid;
  *block = pushed_configuration.block;
  *shared_bytes = pushed_configuration.shared_bytes;
  std::memcpy(stream, &pushed_configuration.stream, sizeof(void*));
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                             cudaStream_t stream) {
  return Launch(function, grid, block, arguments, shared_bytes, stream);
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                               cudaStream_t stream) {
  return Launch(kernel, grid, block, arguments, shared_bytes, stream);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** arguments) {
  return Launch(function, config->gridDim, config->blockDim, arguments, config->dynamicSmemBytes, config->stream);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  std::memset(attributes, 0, sizeof *attributes);
  attributes->maxThreadsPerBlock = 1024;
  attributes->binaryVersion = attributes->ptxVersion = 80;
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int, size_t) {
  *blocks = 1;
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int, size_t, unsigned) {
  *blocks = 1;
  return cudaSuccess;
}

}  // extern "C"
