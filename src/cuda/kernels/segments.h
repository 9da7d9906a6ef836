#pragma once

// What the kernels and the code that launches them share. Compiled for the GPU by NVRTC, which has no standard headers,
// and for the CPU by the tests.

#ifdef __CUDACC__
#define TFC_HOST_DEVICE __host__ __device__ __forceinline__
#define TFC_MAY_ALIAS
#define TFC_UNROLL _Pragma("unroll")
// Left alone the compiler unrolls every loop by four, which multiplies the code and gains nothing.
#define TFC_DONT_UNROLL _Pragma("unroll 1")
#else
#define TFC_HOST_DEVICE inline
#define TFC_MAY_ALIAS [[gnu::may_alias]]
#define TFC_UNROLL
#define TFC_DONT_UNROLL
#endif

namespace tf_collectives::cuda {

/// `elements` of `source`, converted and multiplied, go to `destination`. Both may be the same memory.
struct Segment {
  const void* source;
  void* destination;
  /// Of the kernel's types; bytes for the copying kernel.
  unsigned long long elements;
  double factor;
};

/// A warp works on one tile: up to this many bytes of one segment, counted in the larger of the two types. So many
/// tiles are in one warp's hand that finding the segment costs little, and so few that all processors get some of 4
/// MiB.
constexpr unsigned kTileBytes = 8192;
constexpr unsigned kLanes = 32;
constexpr unsigned kBlockThreads = 128;

/// Up to this many segments travel with the launch itself; the parameters of a kernel are limited to 4096 bytes.
constexpr unsigned kInlineSegments = 112;

/// The parameter of every kernel. Work is shared out by tiles and not by segments, because those are of 4 bytes and of
/// 100 megabytes in one launch.
struct SegmentTable {
  /// Null where the segments are the inline ones; else `count` of them in device memory.
  const Segment* segments;
  /// The first tile of each segment, ascending; a segment without elements has none.
  const unsigned* first_tiles;
  unsigned count;
  unsigned tiles;
  Segment inline_segments[kInlineSegments];
  unsigned inline_first_tiles[kInlineSegments];
};
static_assert(sizeof(SegmentTable) <= 4096, "kernel parameters are limited to 4096 bytes");

TFC_HOST_DEVICE constexpr unsigned TileElements(unsigned source_bytes, unsigned destination_bytes) {
  return kTileBytes / (source_bytes > destination_bytes ? source_bytes : destination_bytes);
}

/// The last segment that starts at or before the tile.
TFC_HOST_DEVICE unsigned FindSegment(const unsigned* first_tiles, unsigned count, unsigned tile) {
  unsigned low = 0;
  unsigned high = count;
  while (high - low > 1) {
    const unsigned middle = low + (high - low) / 2;
    if (first_tiles[middle] <= tile) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

/// The part of a tile that begins here, for `Body::Run(source, destination, elements, factor, lane, lanes)`. Every
/// thread of a launch calls this with its own number.
template <typename Body>
TFC_HOST_DEVICE void RunThread(const SegmentTable& table, unsigned long long thread) {
  const unsigned long long tile = thread / kLanes;
  if (tile >= table.tiles) return;
  const bool is_inline = table.segments == nullptr;
  const Segment* segments = is_inline ? table.inline_segments : table.segments;
  const unsigned* first_tiles = is_inline ? table.inline_first_tiles : table.first_tiles;
  const unsigned index = FindSegment(first_tiles, table.count, static_cast<unsigned>(tile));
  const Segment& segment = segments[index];
  const unsigned long long start = (tile - first_tiles[index]) * Body::kTileElements;
  const unsigned long long left = segment.elements - start;
  Body::Run(static_cast<const char*>(segment.source) + start * sizeof(typename Body::Source),
            static_cast<char*>(segment.destination) + start * sizeof(typename Body::Destination),
            static_cast<unsigned>(left < Body::kTileElements ? left : Body::kTileElements), segment.factor,
            static_cast<unsigned>(thread % kLanes));
}

}  // namespace tf_collectives::cuda
