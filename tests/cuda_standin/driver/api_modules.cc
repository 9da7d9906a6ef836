// cuModule*, cuFunc* and launches.

#include <map>
#include <mutex>

#include "common/call_log.h"
#include "driver/devices.h"
#include "driver/images.h"
#include "driver/private_api.h"

#pragma GCC visibility push(default)

using namespace cuda_standin;

namespace {

// Loaded modules and their functions. A function belongs to its module and is gone with it.
class Modules {
 public:
  CUresult Load(CUmodule* handle, const void* image) {
    if (CurrentDevice() < 0) return CUDA_ERROR_INVALID_CONTEXT;
    if (image == nullptr) return CUDA_ERROR_INVALID_VALUE;
    auto module = std::make_unique<Module>(image, CurrentDevice());
    if (const CUresult error = module->image.LoadError(); error != CUDA_SUCCESS) return error;
    *handle = reinterpret_cast<CUmodule>(module.get());
    const std::lock_guard<std::mutex> lock(mutex_);
    modules_[*handle] = std::move(module);
    return CUDA_SUCCESS;
  }
  CUresult Unload(CUmodule handle) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return modules_.erase(handle) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  }
  CUresult GetFunction(CUfunction* function, CUmodule handle, const char* name) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = modules_.find(handle);
    if (found == modules_.end()) return CUDA_ERROR_INVALID_HANDLE;
    Module& module = *found->second;
    if (!module.image.HasKernel(name)) return CUDA_ERROR_NOT_FOUND;
    auto& kept = module.functions[name];
    if (kept == nullptr) kept = std::make_unique<Function>(Function{name, module.device});
    *function = reinterpret_cast<CUfunction>(kept.get());
    return CUDA_SUCCESS;
  }
  // The name of a function of a loaded module, and "" for what isn't one or is one of another device.
  std::string NameOf(CUfunction function) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [handle, module] : modules_)
      for (const auto& [name, kept] : module->functions)
        if (reinterpret_cast<CUfunction>(kept.get()) == function && kept->device == CurrentDevice()) return name;
    return {};
  }

 private:
  struct Function {
    std::string name;
    int device;
  };
  struct Module {
    Module(const void* image_, int device_) : image(image_), device(device_) {}
    ModuleImage image;
    int device;
    std::map<std::string, std::unique_ptr<Function>> functions;
  };

  mutable std::mutex mutex_;
  std::map<CUmodule, std::unique_ptr<Module>> modules_;
};

Modules& Loaded() {
  static auto* modules = new Modules;
  return *modules;
}

CUresult Launch(CUfunction function, CUstream stream, const unsigned grid[3], const unsigned block[3],
                unsigned shared_bytes, void** parameters, void** extra) {
  const std::string name = Loaded().NameOf(function);
  if (name.empty()) return CUDA_ERROR_INVALID_HANDLE;
  if (extra != nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  return LaunchKernel(name, stream, grid, block, shared_bytes, parameters);
}

unsigned long long Id(CUstream handle) { return IsLogging() ? IdOfStream(handle) : 0; }

}  // namespace

extern "C" {

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  STANDIN_ENTER();
  return Loaded().Load(module, image);
}

CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned, CUjit_option*, void**) {
  STANDIN_ENTER();
  return Loaded().Load(module, image);
}

CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) {
  STANDIN_ENTER();
  return Loaded().Load(module, image);
}

CUresult cuModuleUnload(CUmodule module) {
  STANDIN_ENTER();
  return Loaded().Unload(module);
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  STANDIN_ENTER("name", name);
  return Loaded().GetFunction(function, module, name);
}

CUresult cuModuleGetGlobal(CUdeviceptr*, size_t*, CUmodule, const char* name) {
  STANDIN_ENTER("name", name);
  return CUDA_ERROR_NOT_FOUND;
}

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction) {
  STANDIN_ENTER("attribute", attribute);
  *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : 0;
  return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute attribute, int) {
  STANDIN_ENTER("attribute", attribute);
  return CUDA_SUCCESS;
}

CUresult cuFuncSetCacheConfig(CUfunction, CUfunc_cache) {
  STANDIN_ENTER();
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction, int, size_t) {
  STANDIN_ENTER();
  *blocks = 1;
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction, int, size_t, unsigned) {
  STANDIN_ENTER();
  *blocks = 1;
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void** parameters,
                        void** extra) {
  STANDIN_ENTER("stream", Id(stream));
  const unsigned grid[] = {grid_x, grid_y, grid_z};
  const unsigned block[] = {block_x, block_y, block_z};
  return Launch(function, stream, grid, block, shared_bytes, parameters, extra);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra) {
  STANDIN_ENTER("stream", Id(config->hStream));
  const unsigned grid[] = {config->gridDimX, config->gridDimY, config->gridDimZ};
  const unsigned block[] = {config->blockDimX, config->blockDimY, config->blockDimZ};
  return Launch(function, config->hStream, grid, block, config->sharedMemBytes, parameters, extra);
}

}  // extern "C"
