#pragma once

// What tests of the kernels share: which types they take, how the CPU runs them, and how results are compared.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "cuda_kernels/host_kernels.h"
#include "tf_collectives/types.h"

namespace tf_collectives::cuda {

struct KernelTypes {
  const char* kernel;
  DataType from;
  DataType to;
};
constexpr KernelTypes kKernelTypes[] = {
    {"tfc_scale_uint8", DataType::kUint8, DataType::kUint8},
    {"tfc_scale_int8", DataType::kInt8, DataType::kInt8},
    {"tfc_scale_int32", DataType::kInt32, DataType::kInt32},
    {"tfc_scale_int64", DataType::kInt64, DataType::kInt64},
    {"tfc_scale_float16", DataType::kFloat16, DataType::kFloat16},
    {"tfc_scale_bfloat16", DataType::kBfloat16, DataType::kBfloat16},
    {"tfc_scale_float32", DataType::kFloat32, DataType::kFloat32},
    {"tfc_scale_float64", DataType::kFloat64, DataType::kFloat64},
    {"tfc_convert_float32_to_float16", DataType::kFloat32, DataType::kFloat16},
    {"tfc_convert_float32_to_bfloat16", DataType::kFloat32, DataType::kBfloat16},
    {"tfc_convert_float16_to_float32", DataType::kFloat16, DataType::kFloat32},
    {"tfc_convert_bfloat16_to_float32", DataType::kBfloat16, DataType::kFloat32},
};

inline const HostKernel& FindHostKernel(const std::string& name) {
  return *std::find_if(HostKernels().begin(), HostKernels().end(),
                       [&](const HostKernel& kernel) { return kernel.name == name; });
}

inline bool IsNaN(DataType dtype, const unsigned char* bytes) {
  uint64_t bits = 0;
  std::memcpy(&bits, bytes, SizeOf(dtype));
  switch (dtype) {
    case DataType::kFloat16:
      return (bits & 0x7FFF) > 0x7C00;
    case DataType::kBfloat16:
      return (bits & 0x7FFF) > 0x7F80;
    case DataType::kFloat32:
      return (bits & 0x7FFFFFFF) > 0x7F800000;
    case DataType::kFloat64:
      return (bits & 0x7FFFFFFFFFFFFFFF) > 0x7FF0000000000000;
    default:
      return false;
  }
}

/// The first element that differs, or `count`. One NaN is as good as another.
inline size_t FirstDifference(DataType dtype, const unsigned char* a, const unsigned char* b, size_t count) {
  const size_t bytes = SizeOf(dtype);
  for (size_t i = 0; i < count; ++i, a += bytes, b += bytes) {
    if (std::memcmp(a, b, bytes) != 0 && !(IsNaN(dtype, a) && IsNaN(dtype, b))) return i;
  }
  return count;
}

inline SegmentTable TableOf(const std::vector<Segment>& segments, const std::vector<unsigned>& first_tiles,
                            unsigned tiles) {
  SegmentTable table = {};
  table.count = static_cast<unsigned>(segments.size());
  table.tiles = tiles;
  if (segments.size() <= kInlineSegments) {
    std::copy(segments.begin(), segments.end(), table.inline_segments);
    std::copy(first_tiles.begin(), first_tiles.end(), table.inline_first_tiles);
  } else {
    table.segments = segments.data();
    table.first_tiles = first_tiles.data();
  }
  return table;
}

/// Runs a kernel over these segments, as one launch does.
inline void RunOnHost(const HostKernel& kernel, const std::vector<Segment>& segments) {
  const unsigned tile = TileElements(kernel.source_bytes, kernel.destination_bytes);
  std::vector<unsigned> first_tiles;
  unsigned tiles = 0;
  for (const Segment& segment : segments) {
    first_tiles.push_back(tiles);
    tiles += static_cast<unsigned>((segment.elements + tile - 1) / tile);
  }
  constexpr unsigned kTilesInBlock = kBlockThreads / kLanes;
  kernel.run(TableOf(segments, first_tiles, tiles), (tiles + kTilesInBlock - 1) / kTilesInBlock);
}

}  // namespace tf_collectives::cuda
