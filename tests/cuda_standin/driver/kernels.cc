// Launching kernels: those of ours run in a host version, all others are an error that sticks.

#include <dlfcn.h>

#include <cstring>
#include <map>
#include <memory>

#include "common/call_log.h"
#include "common/settings.h"
#include "driver/devices.h"
#include "driver/private_api.h"
#include "kernel_hook.h"

namespace cuda_standin {
namespace {

void* View(const cuda_standin_launch* launch, const void* pointer, size_t bytes) {
  const std::string user = std::string("kernel ") + launch->kernel;
  const int owner = DeviceOfPointer(pointer);
  if (owner < 0 && !PinnedMemory::Get().Contains(pointer)) {
    SetStickyError(CUDA_ERROR_ILLEGAL_ADDRESS, user + " reached for host memory that isn't page-locked");
    return nullptr;
  }
  if (owner >= 0 && owner != launch->device) {
    SetStickyError(CUDA_ERROR_ILLEGAL_ADDRESS, user + " on device " + std::to_string(launch->device) +
                                                   " reached for memory of device " + std::to_string(owner));
    return nullptr;
  }
  return ViewForUser(pointer, bytes, user);
}

const std::map<std::string, cuda_standin_kernel>& HostKernels() {
  static const auto* kernels = [] {
    auto* table = new std::map<std::string, cuda_standin_kernel>;
    for (const std::string& path : GetSettings().kernel_libraries) {
      void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (library == nullptr) Die(std::string("CUDA_STANDIN_KERNELS: ") + dlerror());
      const auto list = reinterpret_cast<cuda_standin_kernels_function>(dlsym(library, "cuda_standin_kernels"));
      if (list == nullptr) Die("CUDA_STANDIN_KERNELS: " + path + " doesn't export cuda_standin_kernels");
      size_t count = 0;
      const cuda_standin_kernel* first = list(View, &count);
      for (size_t index = 0; index < count; ++index) table->emplace(first[index].name, first[index]);
    }
    return table;
  }();
  return *kernels;
}

CUresult RefuseForeignKernel(const std::string& name) {
  const std::string text = "kernel " + name +
                           " was launched, and the CUDA stand-in has no host version of it. Only the kernels of "
                           "tf_collectives run on it; put other ops under /CPU:0";
  LogCall("foreign kernel", FieldsForLog("kernel", name));
  if (GetSettings().abort_on_foreign_kernel) Die(text);
  SetStickyError(CUDA_ERROR_LAUNCH_FAILED, text);
  return CUDA_ERROR_LAUNCH_FAILED;
}

bool IsLaunchable(const unsigned grid[3], const unsigned block[3], unsigned shared_bytes) {
  const auto in = [](const unsigned value[3], unsigned x, unsigned y, unsigned z) {
    return value[0] >= 1 && value[1] >= 1 && value[2] >= 1 && value[0] <= x && value[1] <= y && value[2] <= z;
  };
  return in(grid, 2147483647, 65535, 65535) && in(block, 1024, 1024, 64) && block[0] * block[1] * block[2] <= 1024 &&
         shared_bytes <= 49152;
}

}  // namespace

CUresult LaunchKernel(const std::string& name, CUstream stream, const unsigned grid[3], const unsigned block[3],
                      unsigned shared_bytes, void** parameters) {
  if (const CUresult error = StickyError(); error != CUDA_SUCCESS) return error;
  const std::shared_ptr<Stream> target = FindStream(stream);
  if (target == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (target->device() != CurrentDevice()) return CUDA_ERROR_INVALID_CONTEXT;
  if (!IsLaunchable(grid, block, shared_bytes)) return CUDA_ERROR_INVALID_VALUE;
  const auto found = HostKernels().find(name);
  if (found == HostKernels().end()) return RefuseForeignKernel(name);

  struct Launch {
    cuda_standin_launch launch;
    std::vector<std::vector<char>> values;
    std::vector<void*> pointers;
  };
  const cuda_standin_kernel& kernel = found->second;
  const auto work = std::make_shared<Launch>();
  for (size_t index = 0; index < kernel.parameter_count; ++index) {
    if (parameters == nullptr || parameters[index] == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const char* value = static_cast<const char*>(parameters[index]);
    work->values.emplace_back(value, value + kernel.parameter_bytes[index]);
  }
  for (std::vector<char>& value : work->values) work->pointers.push_back(value.data());
  work->launch.parameters = work->pointers.data();
  std::memcpy(work->launch.grid, grid, sizeof work->launch.grid);
  std::memcpy(work->launch.block, block, sizeof work->launch.block);
  work->launch.shared_bytes = shared_bytes;
  work->launch.kernel = found->first.c_str();
  work->launch.device = target->device();
  LogCall("kernel", FieldsForLog("kernel", name, "stream", target->id(), "grid", grid[0], "block", block[0]));
  target->Push([work, run = kernel.run] { run(&work->launch); });
  return CUDA_SUCCESS;
}

}  // namespace cuda_standin
