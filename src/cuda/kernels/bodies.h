#pragma once

// What one warp does with one tile, as functions of a lane, so that the CPU can run them lane by lane.

#include "cuda/kernels/numbers.h"
#include "cuda/kernels/segments.h"

namespace tf_collectives::cuda {

template <unsigned bytes>
struct Word;
template <>
struct TFC_MAY_ALIAS alignas(16) Word<16> {
  unsigned parts[4];
};
template <>
struct TFC_MAY_ALIAS alignas(8) Word<8> {
  unsigned parts[2];
};
template <>
struct TFC_MAY_ALIAS Word<4> {
  unsigned part;
};
template <>
struct TFC_MAY_ALIAS Word<2> {
  unsigned short part;
};
template <>
struct TFC_MAY_ALIAS Word<1> {
  unsigned char part;
};

TFC_HOST_DEVICE unsigned Misalignment(const void* pointer) {
  return static_cast<unsigned>(reinterpret_cast<unsigned long long>(pointer) % 16);
}

/// Moves bytes unchanged, whatever they mean, in the widest words that both addresses allow.
struct CopyBody {
  using Source = Uint8;
  using Destination = Uint8;
  static constexpr unsigned kTileElements = kTileBytes;

  static TFC_HOST_DEVICE void Run(const char* source, char* destination, unsigned bytes, double /*factor*/,
                                  unsigned lane) {
    const unsigned difference = Misalignment(source) ^ Misalignment(destination);
    if (difference == 0) {
      CopyWords<16>(source, destination, bytes, lane);
    } else if (difference % 8 == 0) {
      CopyWords<8>(source, destination, bytes, lane);
    } else if (difference % 4 == 0) {
      CopyWords<4>(source, destination, bytes, lane);
    } else if (difference % 2 == 0) {
      CopyWords<2>(source, destination, bytes, lane);
    } else {
      CopyWords<1>(source, destination, bytes, lane);
    }
  }

 private:
  template <unsigned width>
  static TFC_HOST_DEVICE void CopyWords(const char* source, char* destination, unsigned bytes, unsigned lane) {
    unsigned head = (width - Misalignment(source) % width) % width;
    if (head > bytes) head = bytes;
    const unsigned words = (bytes - head) / width;
    const auto* from = reinterpret_cast<const Word<width>*>(source + head);
    auto* to = reinterpret_cast<Word<width>*>(destination + head);
    unsigned i = lane;
    // Four loads are under way before the first store waits for its value.
    TFC_DONT_UNROLL
    for (; i + 3 * kLanes < words; i += 4 * kLanes) {
      const Word<width> a = from[i], b = from[i + kLanes], c = from[i + 2 * kLanes], d = from[i + 3 * kLanes];
      to[i] = a;
      to[i + kLanes] = b;
      to[i + 2 * kLanes] = c;
      to[i + 3 * kLanes] = d;
    }
    TFC_DONT_UNROLL
    for (; i < words; i += kLanes) to[i] = from[i];
    // Head and tail are shorter than a word, so that one byte for each lane does.
    if (lane < head) destination[lane] = source[lane];
    const unsigned tail = head + words * width;
    if (lane < bytes - tail) destination[tail + lane] = source[tail + lane];
  }
};

/// Multiplies by the segment's factor and converts, in one pass over memory. `From` and `To` may be one type.
template <typename From, typename To>
struct ConvertBody {
  using Source = From;
  using Destination = To;
  static constexpr unsigned kTileElements = TileElements(sizeof(From), sizeof(To));

  static TFC_HOST_DEVICE void Run(const char* source, char* destination, unsigned elements, double factor,
                                  unsigned lane) {
    const auto* from = reinterpret_cast<const From*>(source);
    auto* to = reinterpret_cast<To*>(destination);
    unsigned head = (kToWord - Misalignment(to) % kToWord) % kToWord / sizeof(To);
    // Without an element at which both are aligned, everything goes one by one.
    const bool aligned = Misalignment(from + head) % kFromWord == 0 && Misalignment(to + head) % kToWord == 0;
    if (!aligned || head > elements) head = elements;
    const unsigned groups = (elements - head) / kGroup;
    const unsigned tail = head + groups * kGroup;
    const auto* from_words = reinterpret_cast<const Word<kFromWord>*>(from + head);
    auto* to_words = reinterpret_cast<Word<kToWord>*>(to + head);
    unsigned i = lane;
    TFC_DONT_UNROLL
    for (; i + 3 * kLanes < groups; i += 4 * kLanes) {
      const Word<kFromWord> a = from_words[i], b = from_words[i + kLanes];
      const Word<kFromWord> c = from_words[i + 2 * kLanes], d = from_words[i + 3 * kLanes];
      to_words[i] = ConvertGroup(a, factor);
      to_words[i + kLanes] = ConvertGroup(b, factor);
      to_words[i + 2 * kLanes] = ConvertGroup(c, factor);
      to_words[i + 3 * kLanes] = ConvertGroup(d, factor);
    }
    TFC_DONT_UNROLL
    for (; i < groups; i += kLanes) to_words[i] = ConvertGroup(from_words[i], factor);
    TFC_DONT_UNROLL
    for (i = lane; i < head; i += kLanes) ConvertOne(from[i], &to[i], factor);
    TFC_DONT_UNROLL
    for (i = tail + lane; i < elements; i += kLanes) ConvertOne(from[i], &to[i], factor);
  }

 private:
  /// 16 bytes of the larger type, so that neighbouring lanes touch neighbouring words on both sides.
  static constexpr unsigned kGroup = 16 / (sizeof(From) > sizeof(To) ? sizeof(From) : sizeof(To));
  static constexpr unsigned kFromWord = kGroup * sizeof(From);
  static constexpr unsigned kToWord = kGroup * sizeof(To);

  template <typename T>
  union Group {
    Word<kGroup * sizeof(T)> word;
    T elements[kGroup];
  };

  static TFC_HOST_DEVICE void ConvertOne(From from, To* to, double factor) {
    Narrow(Multiply(Widen(from), factor), to);
  }

  static TFC_HOST_DEVICE Word<kToWord> ConvertGroup(const Word<kFromWord>& word, double factor) {
    Group<From> input;
    Group<To> output;
    input.word = word;
    TFC_UNROLL
    for (unsigned e = 0; e < kGroup; ++e) ConvertOne(input.elements[e], &output.elements[e], factor);
    return output.word;
  }
};

/// Every kernel, as KERNEL(name, body). The copying one is the first.
#define TFC_SEGMENT_KERNELS(KERNEL)                                       \
  KERNEL(tfc_copy, CopyBody)                                              \
  KERNEL(tfc_scale_uint8, ConvertBody<Uint8, Uint8>)                      \
  KERNEL(tfc_scale_int8, ConvertBody<Int8, Int8>)                         \
  KERNEL(tfc_scale_int32, ConvertBody<Int32, Int32>)                      \
  KERNEL(tfc_scale_int64, ConvertBody<Int64, Int64>)                      \
  KERNEL(tfc_scale_float16, ConvertBody<Float16, Float16>)                \
  KERNEL(tfc_scale_bfloat16, ConvertBody<Bfloat16, Bfloat16>)             \
  KERNEL(tfc_scale_float32, ConvertBody<Float32, Float32>)                \
  KERNEL(tfc_scale_float64, ConvertBody<Float64, Float64>)                \
  KERNEL(tfc_convert_float32_to_float16, ConvertBody<Float32, Float16>)   \
  KERNEL(tfc_convert_float32_to_bfloat16, ConvertBody<Float32, Bfloat16>) \
  KERNEL(tfc_convert_float16_to_float32, ConvertBody<Float16, Float32>)   \
  KERNEL(tfc_convert_bfloat16_to_float32, ConvertBody<Bfloat16, Float32>)

}  // namespace tf_collectives::cuda
