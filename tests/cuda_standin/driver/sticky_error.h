#pragma once

#include <cuda.h>

#include <string>

namespace cuda_standin {

struct StickyErrorState {
  CUresult error;
  std::string text;
};

/// Null as long as nothing went wrong for good.
const StickyErrorState* FindStickyError();

/// "offset 8 of an allocation of 64 bytes of device 0".
std::string DescribeAddress(CUdeviceptr pointer);

}  // namespace cuda_standin
