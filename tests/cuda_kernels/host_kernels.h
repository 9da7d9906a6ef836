#pragma once

#include <vector>

#include "cuda/kernels/bodies.h"

namespace tf_collectives::cuda {

/// A kernel of ours compiled for the CPU: runs every thread of a launch, one after the other.
struct HostKernel {
  const char* name;
  void (*run)(const SegmentTable& table, unsigned blocks);
  /// Of the elements that a table counts.
  unsigned source_bytes;
  unsigned destination_bytes;
};

template <typename Body>
void RunBlocks(const SegmentTable& table, unsigned blocks) {
  const unsigned long long threads = static_cast<unsigned long long>(blocks) * kBlockThreads;
  for (unsigned long long thread = 0; thread < threads; ++thread) RunThread<Body>(table, thread);
}

template <typename Body>
HostKernel MakeHostKernel(const char* name) {
  return {name, RunBlocks<Body>, sizeof(typename Body::Source), sizeof(typename Body::Destination)};
}

inline const std::vector<HostKernel>& HostKernels() {
#define TFC_HOST_KERNEL(name, ...) MakeHostKernel<__VA_ARGS__>(#name),
  static const std::vector<HostKernel> kernels = {TFC_SEGMENT_KERNELS(TFC_HOST_KERNEL)};
#undef TFC_HOST_KERNEL
  return kernels;
}

}  // namespace tf_collectives::cuda
