// Compiled once for each instruction set, in a namespace of its own, with TFC_REDUCTION_NAMESPACE set by the including
// file. Nothing here may be an inline function of another namespace: the linker would keep one copy for all processors.

#if defined(__F16C__)
#include <immintrin.h>
#endif

#include <limits>
#include <type_traits>

#include "communicators/float16.h"
#include "communicators/reduction.h"

namespace tf_collectives {
namespace TFC_REDUCTION_NAMESPACE {

// Blocks of accumulators stay in the first-level cache.
constexpr size_t kBlock = 1024;

template <typename T>
constexpr bool kIsFloat16Bit = std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>;

/// Averages need room for the sum of all ranks; everything else accumulates in its own type, 16-bit floats in float32.
template <typename T, ReduceOp op>
using Accumulator = std::conditional_t<kIsFloat16Bit<T>, float,
                                       std::conditional_t<std::is_integral_v<T> && op == ReduceOp::kAverage,
                                                          std::conditional_t<sizeof(T) == 8, __int128, int64_t>, T>>;

template <typename T>
T Saturate(double value) {
  // The upper limit of a 64-bit type rounds up to a double that no longer fits, hence the >=.
  if (value >= static_cast<double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
  if (value <= static_cast<double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  return value == value ? static_cast<T>(value) : T{0};
}

template <typename T>
T Scale(T value, double factor) {
  if constexpr (std::is_integral_v<T>) {
    return Saturate<T>(static_cast<double>(value) * factor);
  } else {
    return value * static_cast<T>(factor);
  }
}

template <ReduceOp op, typename A>
A Combine(A a, A b) {
  if constexpr (op == ReduceOp::kMin) {
    return b < a || b != b ? b : a;
  } else if constexpr (op == ReduceOp::kMax) {
    return b > a || b != b ? b : a;
  } else if constexpr (std::is_integral_v<A> && sizeof(A) <= 8) {
    // Unsigned arithmetic wraps where signed would be undefined.
    using Wide = std::common_type_t<std::make_unsigned_t<A>, unsigned>;
    const auto x = static_cast<Wide>(a), y = static_cast<Wide>(b);
    return static_cast<A>(op == ReduceOp::kProduct ? x * y : x + y);
  } else {
    return op == ReduceOp::kProduct ? a * b : a + b;
  }
}

template <typename T, typename A>
void Load(const T* source, size_t count, double factor, A* block) {
  size_t i = 0;
#if defined(__F16C__)
  if constexpr (std::is_same_v<T, Float16>) {
    for (; i + 8 <= count; i += 8) {
      _mm256_storeu_ps(block + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i))));
    }
  }
#endif
  for (; i < count; ++i) block[i] = static_cast<A>(source[i]);
  if (factor == 1.0) return;
  for (i = 0; i < count; ++i) {
    if constexpr (std::is_integral_v<T>) {
      block[i] = static_cast<A>(Scale(source[i], factor));
    } else {
      block[i] = Scale(block[i], factor);
    }
  }
}

template <typename T, ReduceOp op, typename A>
void Store(const A* block, size_t count, int ranks, double factor, T* destination) {
  size_t i = 0;
  const auto finish = [&](A value) {
    if constexpr (op == ReduceOp::kAverage) value = value / static_cast<A>(ranks);
    if constexpr (std::is_integral_v<T>) {
      const T narrow = static_cast<T>(value);
      return factor == 1.0 ? narrow : Scale(narrow, factor);
    } else {
      return factor == 1.0 ? value : Scale(value, factor);
    }
  };
#if defined(__F16C__)
  if constexpr (std::is_same_v<T, Float16>) {
    for (; i + 8 <= count; i += 8) {
      alignas(32) float finished[8];
      for (size_t k = 0; k < 8; ++k) finished[k] = finish(block[i + k]);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(destination + i),
                       _mm256_cvtps_ph(_mm256_load_ps(finished), _MM_FROUND_TO_NEAREST_INT));
    }
  }
#endif
  for (; i < count; ++i) {
    if constexpr (kIsFloat16Bit<T>) {
      destination[i] = T::From(finish(block[i]));
    } else {
      destination[i] = finish(block[i]);
    }
  }
}

template <typename T, ReduceOp op>
void Reduce(const Reduction& reduction) {
  using A = Accumulator<T, op>;
  T* destination = static_cast<T*>(reduction.destination);
  A accumulated[kBlock];
  A next[kBlock];
  for (size_t start = 0; start < reduction.count; start += kBlock) {
    const size_t count = reduction.count - start < kBlock ? reduction.count - start : kBlock;
    for (int rank = 0; rank < reduction.source_count; ++rank) {
      const T* source = static_cast<const T*>(reduction.sources[rank]) + start;
      if (rank == 0) {
        Load(source, count, reduction.prescale_factor, accumulated);
      } else if (std::is_same_v<A, T> && reduction.prescale_factor == 1.0) {
        // Read in place what needs no conversion.
        if constexpr (std::is_same_v<A, T>) {
          for (size_t i = 0; i < count; ++i) accumulated[i] = Combine<op>(accumulated[i], source[i]);
        }
      } else {
        Load(source, count, reduction.prescale_factor, next);
        for (size_t i = 0; i < count; ++i) accumulated[i] = Combine<op>(accumulated[i], next[i]);
      }
    }
    Store<T, op>(accumulated, count, reduction.source_count, reduction.postscale_factor, destination + start);
  }
}

template <typename T>
ReduceFunction FindForType(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return Reduce<T, ReduceOp::kSum>;
    case ReduceOp::kAverage:
      return Reduce<T, ReduceOp::kAverage>;
    case ReduceOp::kMin:
      return Reduce<T, ReduceOp::kMin>;
    case ReduceOp::kMax:
      return Reduce<T, ReduceOp::kMax>;
    case ReduceOp::kProduct:
      return Reduce<T, ReduceOp::kProduct>;
  }
  return nullptr;
}

ReduceFunction FindReduceFunction(DataType dtype, ReduceOp op) {
  switch (dtype) {
    case DataType::kUint8:
      return FindForType<uint8_t>(op);
    case DataType::kInt8:
      return FindForType<int8_t>(op);
    case DataType::kInt32:
      return FindForType<int32_t>(op);
    case DataType::kInt64:
      return FindForType<int64_t>(op);
    case DataType::kFloat16:
      return FindForType<Float16>(op);
    case DataType::kBfloat16:
      return FindForType<Bfloat16>(op);
    case DataType::kFloat32:
      return FindForType<float>(op);
    case DataType::kFloat64:
      return FindForType<double>(op);
    default:
      return nullptr;
  }
}

}  // namespace TFC_REDUCTION_NAMESPACE
}  // namespace tf_collectives
