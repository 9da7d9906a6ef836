#include "runtime/device_library.h"

#include <dlfcn.h>

#include <string>

#include "text.h"

namespace tf_collectives {
namespace {

constexpr const char* kLibrary = "libtf_collectives_cuda.so";

std::string Beside(const void* symbol) {
  Dl_info info;
  if (dladdr(symbol, &info) == 0) return kLibrary;
  const std::string path = info.dli_fname;
  return path.substr(0, path.rfind('/') + 1) + kLibrary;
}

}  // namespace

Status LoadDeviceBackend(const DeviceBackend::Options& options, std::unique_ptr<DeviceBackend>* backend) {
  // Never closed: threads of CUDA and NCCL may run until the process ends.
  void* library = dlopen(Beside(reinterpret_cast<const void*>(&LoadDeviceBackend)).c_str(), RTLD_NOW | RTLD_LOCAL);
  void* symbol = library == nullptr ? nullptr : dlsym(library, kDeviceBackendSymbol);
  if (symbol == nullptr) {
    return {StatusCode::kFailedPrecondition, Concat("the GPU part of tf_collectives cannot be opened: ", dlerror(),
                                                    ". Install the package again: pip install .")};
  }
  Status status;
  backend->reset(reinterpret_cast<MakeDeviceBackend>(symbol)(&options, &status));
  return status;
}

}  // namespace tf_collectives
