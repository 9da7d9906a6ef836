// cuGetErrorName and cuGetErrorString.

#include <cuda.h>

#include <utility>

#include "driver/sticky_error.h"

#pragma GCC visibility push(default)

namespace {

#define NAMED(error) std::pair<CUresult, const char*>(error, #error)

constexpr std::pair<CUresult, const char*> kNames[] = {
    NAMED(CUDA_SUCCESS),
    NAMED(CUDA_ERROR_INVALID_VALUE),
    NAMED(CUDA_ERROR_OUT_OF_MEMORY),
    NAMED(CUDA_ERROR_NOT_INITIALIZED),
    NAMED(CUDA_ERROR_NO_DEVICE),
    NAMED(CUDA_ERROR_INVALID_DEVICE),
    NAMED(CUDA_ERROR_INVALID_IMAGE),
    NAMED(CUDA_ERROR_INVALID_CONTEXT),
    NAMED(CUDA_ERROR_NO_BINARY_FOR_GPU),
    NAMED(CUDA_ERROR_INVALID_PTX),
    NAMED(CUDA_ERROR_INVALID_HANDLE),
    NAMED(CUDA_ERROR_NOT_FOUND),
    NAMED(CUDA_ERROR_NOT_READY),
    NAMED(CUDA_ERROR_ILLEGAL_ADDRESS),
    NAMED(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED),
    NAMED(CUDA_ERROR_LAUNCH_FAILED),
    NAMED(CUDA_ERROR_NOT_PERMITTED),
    NAMED(CUDA_ERROR_NOT_SUPPORTED),
    NAMED(CUDA_ERROR_UNKNOWN),
};

}  // namespace

extern "C" {

CUresult cuGetErrorName(CUresult error, const char** name) {
  for (const auto& [known, text] : kNames) {
    if (known != error) continue;
    *name = text;
    return CUDA_SUCCESS;
  }
  *name = nullptr;
  return CUDA_ERROR_INVALID_VALUE;
}

// An error that stuck says what happened, which no real driver can.
CUresult cuGetErrorString(CUresult error, const char** text) {
  const cuda_standin::StickyErrorState* sticky = cuda_standin::FindStickyError();
  if (sticky != nullptr && sticky->error == error) {
    *text = sticky->text.c_str();
    return CUDA_SUCCESS;
  }
  return cuGetErrorName(error, text);
}

}  // extern "C"
