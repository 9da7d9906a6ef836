// The kernels' bodies, run on the CPU, against the CPU path's own arithmetic.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "communicators/reduction.h"
#include "cuda/kernel_checks.h"
#include "testing.h"
#include "text.h"
#include "tf_collectives/types.h"

namespace tf_collectives::cuda {
namespace {

constexpr unsigned char kCanary = 0xA5;
constexpr size_t kMargin = 64;

/// Random memory with a given misalignment, and untouchable margins around it.
class Memory {
 public:
  Memory(size_t bytes, size_t misalignment, uint32_t seed)
      : storage_(bytes + 2 * kMargin + 32, kCanary), bytes_(bytes) {
    data_ = storage_.data() + kMargin;
    data_ += (16 - reinterpret_cast<uintptr_t>(data_) % 16) % 16 + misalignment;
    std::mt19937 random(seed);
    for (size_t i = 0; i < bytes; ++i) data_[i] = static_cast<unsigned char>(random());
  }

  unsigned char* data() { return data_; }
  bool MarginsAreIntact() const {
    const auto intact = [](unsigned char byte) { return byte == kCanary; };
    return std::all_of(storage_.data(), static_cast<const unsigned char*>(data_), intact) &&
           std::all_of(static_cast<const unsigned char*>(data_) + bytes_, storage_.data() + storage_.size(), intact);
  }

 private:
  std::vector<unsigned char> storage_;
  unsigned char* data_ = nullptr;
  size_t bytes_;
};

template <typename T>
std::vector<float> WidenAll(const void* source, size_t count) {
  std::vector<float> wide(count);
  for (size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, static_cast<const char*>(source) + i * sizeof(T), sizeof(T));
    wide[i] = static_cast<float>(value);
  }
  return wide;
}

template <typename T>
void NarrowAll(const std::vector<float>& wide, void* destination) {
  for (size_t i = 0; i < wide.size(); ++i) {
    const T narrow = T::From(wide[i]);
    std::memcpy(static_cast<char*>(destination) + i * sizeof(T), &narrow, sizeof(T));
  }
}

/// What the kernel should give, by the reduction of a single rank and plain conversions.
std::vector<unsigned char> Expected(const KernelTypes& types, const void* source, size_t count, double factor) {
  std::vector<unsigned char> aligned(count * SizeOf(types.from));
  if (count > 0) std::memcpy(aligned.data(), source, aligned.size());
  std::vector<unsigned char> result(count * SizeOf(types.to));
  if (types.from == types.to) {
    const void* sources[] = {aligned.data()};
    FindReduceFunction(types.from, ReduceOp::kSum)({sources, 1, result.data(), count, factor, 1.0});
    return result;
  }
  std::vector<float> wide;
  if (types.from == DataType::kFloat32) {
    wide.resize(count);
    if (count > 0) std::memcpy(wide.data(), aligned.data(), aligned.size());
  } else if (types.from == DataType::kFloat16) {
    wide = WidenAll<cuda_host::Float16>(aligned.data(), count);
  } else {
    wide = WidenAll<cuda_host::Bfloat16>(aligned.data(), count);
  }
  for (float& value : wide) value *= static_cast<float>(factor);
  if (types.to == DataType::kFloat32) {
    if (count > 0) std::memcpy(result.data(), wide.data(), result.size());
  } else if (types.to == DataType::kFloat16) {
    NarrowAll<cuda_host::Float16>(wide, result.data());
  } else {
    NarrowAll<cuda_host::Bfloat16>(wide, result.data());
  }
  return result;
}

/// Sizes around words, rounds of a warp and tiles. Most combinations of alignments see only a few of them.
const std::vector<size_t> kAllCounts = {1,   2,   3,   5,    8,    15,   16,   17,   33,
                                        127, 128, 129, 1000, 2047, 2048, 2049, 8192, 9001};
const std::vector<size_t> kSomeCounts = {1, 7, 31, 530, 2049};

const std::vector<size_t>& Counts(size_t from, size_t to) { return from == to ? kAllCounts : kSomeCounts; }

TEST(CopiesAnyBytesAtAnyAlignment) {
  for (size_t from = 0; from < 16; ++from) {
    for (size_t to = 0; to < 16; ++to) {
      for (const size_t bytes : Counts(from, to)) {
        Memory source(bytes, from, 1), destination(bytes, to, 2);
        RunOnHost(FindHostKernel("tfc_copy"), {{source.data(), destination.data(), bytes, 1.0}});
        CHECK(std::memcmp(source.data(), destination.data(), bytes) == 0);
        CHECK(destination.MarginsAreIntact());
      }
    }
  }
}

TEST(ScalesAndConvertsAsTheCpuDoes) {
  for (const KernelTypes& types : kKernelTypes) {
    const size_t from_bytes = SizeOf(types.from), to_bytes = SizeOf(types.to);
    for (size_t from = 0; from < 16; from += from_bytes) {
      for (size_t to = 0; to < 16; to += to_bytes) {
        for (const size_t count : Counts(from, to)) {
          for (const double factor : {1.0, -1e3 / 3}) {
            Memory source(count * from_bytes, from, 3), destination(count * to_bytes, to, 4);
            RunOnHost(FindHostKernel(types.kernel), {{source.data(), destination.data(), count, factor}});
            const auto expected = Expected(types, source.data(), count, factor);
            const size_t different = FirstDifference(types.to, destination.data(), expected.data(), count);
            if (different != count)
              testing::Fail(__FILE__, __LINE__,
                            Concat(types.kernel, " of ", count, " elements at ", from, " to ", to, " times ", factor,
                                   ": element ", different, " is wrong"));
            CHECK(destination.MarginsAreIntact());
          }
        }
      }
    }
  }
}

TEST(ScalesInPlaceAndEachElementOnce) {
  for (const KernelTypes& types : kKernelTypes) {
    if (types.from != types.to) continue;
    const size_t bytes = SizeOf(types.from);
    // One element beyond two whole tiles.
    const size_t count = 2 * kTileBytes / bytes + 1;
    Memory memory(count * bytes, bytes % 16, 5);
    const auto expected = Expected(types, memory.data(), count, 0.75);
    RunOnHost(FindHostKernel(types.kernel), {{memory.data(), memory.data(), count, 0.75}});
    CHECK_EQ(FirstDifference(types.to, memory.data(), expected.data(), count), count);
  }
}

TEST(NarrowsEveryKindOfFloat) {
  // All exponents and all that decides on rounding, without taking minutes.
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 4099) {
    const float value = FloatFromBits(static_cast<unsigned>(bits));
    if (value != value) continue;
    Float16 half;
    Bfloat16 brain;
    Narrow(value, &half);
    Narrow(value, &brain);
    CHECK(half.bits == cuda_host::Float16::From(value).bits);
    CHECK(brain.bits == cuda_host::Bfloat16::From(value).bits);
  }
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const auto narrow = static_cast<unsigned short>(bits);
    CHECK(BitsOf(Widen(Bfloat16{narrow})) == BitsOf(static_cast<float>(cuda_host::Bfloat16{narrow})));
    CHECK(BitsOf(Widen(Float16{narrow})) == BitsOf(static_cast<float>(cuda_host::Float16{narrow})));
  }
}

TEST(IntegersSaturateAndKeepTheirValueWithoutAFactor) {
  CHECK_EQ(Multiply(Int64{9007199254740993}, 1.0), Int64{9007199254740993});
  CHECK_EQ(Multiply(Limits<Int64>::kGreatest, 2.0), Limits<Int64>::kGreatest);
  CHECK_EQ(Multiply(Limits<Int64>::kLeast, 2.0), Limits<Int64>::kLeast);
  CHECK_EQ(Multiply(Int32{-7}, 0.5), Int32{-3});
  CHECK_EQ(int{Multiply(Uint8{200}, 2.0)}, 255);
  CHECK_EQ(int{Multiply(Int8{-100}, 2.0)}, -128);
}

TEST(RunsManySegmentsOfAllSizesInOneLaunch) {
  std::mt19937 random(6);
  for (const size_t segment_count : {size_t{1}, size_t{kInlineSegments}, size_t{kInlineSegments} + 1, size_t{3000}}) {
    for (const char* name : {"tfc_copy", "tfc_scale_float32", "tfc_convert_float32_to_bfloat16"}) {
      const HostKernel& kernel = FindHostKernel(name);
      std::vector<Memory> sources, destinations;
      std::vector<Segment> segments;
      for (size_t i = 0; i < segment_count; ++i) {
        // Empty ones, tiny ones, and a few that take many tiles; the first and the last are empty.
        size_t count = i == 0 || i + 1 == segment_count ? 0 : random() % 40;
        if (random() % 50 == 0) count = random() % 50000;
        sources.emplace_back(count * kernel.source_bytes, 0, static_cast<uint32_t>(i));
        destinations.emplace_back(count * kernel.destination_bytes, 0, static_cast<uint32_t>(i) + 1);
        segments.push_back({sources.back().data(), destinations.back().data(), count, 0.5});
      }
      RunOnHost(kernel, segments);
      for (size_t i = 0; i < segment_count; ++i) {
        const size_t count = segments[i].elements;
        if (kernel.name == std::string("tfc_copy")) {
          CHECK(count == 0 || std::memcmp(sources[i].data(), destinations[i].data(), count) == 0);
        } else {
          const DataType to = kernel.destination_bytes == 4 ? DataType::kFloat32 : DataType::kBfloat16;
          const auto expected = Expected({kernel.name, DataType::kFloat32, to}, sources[i].data(), count, 0.5);
          CHECK_EQ(FirstDifference(to, destinations[i].data(), expected.data(), count), count);
        }
        CHECK(destinations[i].MarginsAreIntact());
      }
    }
  }
}

TEST(FindsTheSegmentOfEachTile) {
  const std::vector<unsigned> tiles = {0, 3, 0, 1, 1, 0, 0, 7, 0};
  std::vector<unsigned> first_tiles, owners;
  for (unsigned i = 0; i < tiles.size(); ++i) {
    first_tiles.push_back(static_cast<unsigned>(owners.size()));
    owners.insert(owners.end(), tiles[i], i);
  }
  for (unsigned tile = 0; tile < owners.size(); ++tile) {
    CHECK_EQ(FindSegment(first_tiles.data(), static_cast<unsigned>(first_tiles.size()), tile), owners[tile]);
  }
}

}  // namespace
}  // namespace tf_collectives::cuda
