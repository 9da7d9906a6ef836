#pragma once

#include <cuda.h>

namespace cuda_standin {

enum class Completion { kInStreamOrder, kBeforeReturn };

CUresult Copy(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream, Completion completion);
/// `height` rows of `width` elements each; rows begin `pitch` bytes apart.
CUresult Fill(CUdeviceptr to, size_t pitch, unsigned value, size_t element_bytes, size_t width, size_t height,
              CUstream stream, Completion completion);

}  // namespace cuda_standin
