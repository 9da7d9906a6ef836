#pragma once

#include <cstddef>
#include <vector>

namespace tf_collectives::cuda {

/// Compiled kernels for one GPU architecture, as the build embedded them.
struct KernelImage {
  /// 90 for compute capability 9.0.
  int architecture;
  /// PTX, which the driver compiles for any newer architecture; else machine code for this major version from this
  /// minor version up.
  bool is_ptx;
  const void* data;
  size_t bytes;
};

/// None where the build had no CUDA compiler. Defined in a file that the build writes.
const std::vector<KernelImage>& KernelImages();

/// The images that a GPU can run, the best one first: machine code before PTX, newer before older.
std::vector<const KernelImage*> ImagesFor(const std::vector<KernelImage>& images, int compute_capability);

}  // namespace tf_collectives::cuda
