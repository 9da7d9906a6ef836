// Copies, scales and converts the segments of a table, all in one launch: packing and unpacking of the fusion buffer,
// and scaling of tensors that don't go through it. Cost: each element is read once and written once.

#include "cuda/kernels/bodies.h"

#define TFC_DEFINE_KERNEL(name, ...)                                                                          \
  extern "C" __global__ void __launch_bounds__(tf_collectives::cuda::kBlockThreads)                           \
      name(const __grid_constant__ tf_collectives::cuda::SegmentTable table) {                                \
    using namespace tf_collectives::cuda;                                                                     \
    RunThread<__VA_ARGS__>(table, static_cast<unsigned long long>(blockIdx.x) * kBlockThreads + threadIdx.x); \
  }

TFC_SEGMENT_KERNELS(TFC_DEFINE_KERNEL)
