#include "cuda/driver.h"

#include <mutex>
#include <string>

#include "cuda/shared_library.h"
#include "text.h"

namespace tf_collectives::cuda {
namespace {

constexpr char kLibrary[] = "libcuda.so.1";

Status Load(CudaDriver* driver) {
  SharedLibrary library;
  if (!library.Open(kLibrary, SharedLibrary::Lookup::kAnywhere)) {
    return {StatusCode::kFailedPrecondition,
            Concat("The CUDA driver library ", kLibrary, " can't be opened: ", library.error(),
                   ". Install the NVIDIA driver on this machine; in a container, start it with the GPUs "
                   "(docker run --gpus all).")};
  }
  SymbolResolver resolver(library);
#define TFC_RESOLVE_FUNCTION(symbol, ...) resolver.Require(#symbol, &driver->symbol);
  TFC_CUDA_DRIVER_FUNCTIONS(TFC_RESOLVE_FUNCTION)
#undef TFC_RESOLVE_FUNCTION
  if (!resolver.missing().empty()) {
    return {StatusCode::kFailedPrecondition,
            Concat("The CUDA driver library ", kLibrary, " lacks ", resolver.MissingList(),
                   ". Update the NVIDIA driver to version 525 or newer, the oldest for CUDA 12.")};
  }
  return driver->Check(driver->cuInit(0), "cuInit");
}

const char* Advice(CUresult result) {
  switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
      return " Lower TFC_FUSION_THRESHOLD, or let TensorFlow take less of the GPU's memory "
             "(tf.config.experimental.set_memory_growth, or pin_gpu(), which sets it).";
    case CUDA_ERROR_NO_DEVICE:
      return " Check that nvidia-smi lists a GPU and that CUDA_VISIBLE_DEVICES doesn't hide it.";
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
      return " Update the NVIDIA driver, or build tf_collectives on this machine.";
    default:
      return " Errors of earlier kernels on the same GPU are reported here too: look for the first one in "
             "TensorFlow's log, and run with CUDA_LAUNCH_BLOCKING=1 to see which kernel fails.";
  }
}

}  // namespace

std::string CudaDriver::Describe(CUresult result) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (cuGetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr)
    return Concat("CUDA error ", static_cast<unsigned>(result));
  if (cuGetErrorString(result, &text) != CUDA_SUCCESS || text == nullptr) return name;
  return Concat(name, " (", text, ")");
}

Status CudaDriver::Check(CUresult result, const char* call) const {
  if (result == CUDA_SUCCESS) return Status::Ok();
  const StatusCode code = result == CUDA_ERROR_OUT_OF_MEMORY ? StatusCode::kResourceExhausted : StatusCode::kInternal;
  return {code, Concat(call, " failed: ", Describe(result), ".", Advice(result))};
}

const CudaDriver* LoadCudaDriver(Status* status) {
  static std::once_flag once;
  static CudaDriver driver;
  // Never destroyed, because threads may ask while the process ends.
  static Status& loaded = *new Status;
  std::call_once(once, [] { loaded = Load(&driver); });
  *status = loaded;
  return loaded.ok() ? &driver : nullptr;
}

}  // namespace tf_collectives::cuda
