// Our kernels for the CUDA stand-in, which loads this library by CUDA_STANDIN_KERNELS.

#include <algorithm>
#include <iterator>
#include <vector>

#include "cuda_kernels/host_kernels.h"
#include "cuda_standin/kernel_hook.h"

namespace tf_collectives::cuda {
namespace {

cuda_standin_view view = nullptr;

/// Copies an array out of device memory.
template <typename T>
bool Read(const cuda_standin_launch* launch, const T* pointer, size_t count, std::vector<T>* values) {
  const auto* found = static_cast<const T*>(view(launch, pointer, count * sizeof(T)));
  if (found == nullptr) return false;
  values->assign(found, found + count);
  return true;
}

void Run(const cuda_standin_launch* launch) {
  const auto kernel = std::find_if(HostKernels().begin(), HostKernels().end(),
                                   [&](const HostKernel& k) { return std::string(k.name) == launch->kernel; });
  SegmentTable table = *static_cast<const SegmentTable*>(launch->parameters[0]);
  std::vector<Segment> segments(table.inline_segments, table.inline_segments + std::min(table.count, kInlineSegments));
  std::vector<unsigned> first_tiles(table.inline_first_tiles,
                                    table.inline_first_tiles + std::min(table.count, kInlineSegments));
  if (table.segments != nullptr && (!Read(launch, table.segments, table.count, &segments) ||
                                    !Read(launch, table.first_tiles, table.count, &first_tiles)))
    return;
  for (Segment& segment : segments) {
    segment.source = view(launch, segment.source, segment.elements * kernel->source_bytes);
    segment.destination = view(launch, segment.destination, segment.elements * kernel->destination_bytes);
    if (segment.source == nullptr || segment.destination == nullptr) return;
  }
  table.segments = segments.data();
  table.first_tiles = first_tiles.data();
  kernel->run(table, launch->grid[0]);
}

}  // namespace
}  // namespace tf_collectives::cuda

extern "C" [[gnu::visibility("default")]] const cuda_standin_kernel* cuda_standin_kernels(cuda_standin_view find,
                                                                                          size_t* count) {
  using namespace tf_collectives::cuda;
  static constexpr size_t kParameterBytes[] = {sizeof(SegmentTable)};
  static const auto& kernels = *new std::vector<cuda_standin_kernel>([] {
    std::vector<cuda_standin_kernel> list;
    for (const HostKernel& kernel : HostKernels())
      list.push_back({kernel.name, Run, kParameterBytes, std::size(kParameterBytes)});
    return list;
  }());
  view = find;
  *count = kernels.size();
  return kernels.data();
}
