#pragma once

// The element types that kernels compute with. A 16-bit float is computed with as float32, as on the CPU.

#ifndef __CUDACC__
#define TFC_REDUCTION_NAMESPACE cuda_host
#include "communicators/float16.h"
#undef TFC_REDUCTION_NAMESPACE
#endif

#include "cuda/kernels/segments.h"

namespace tf_collectives::cuda {

using Uint8 = unsigned char;
using Int8 = signed char;
using Int32 = int;
using Int64 = long long;
using Float32 = float;
using Float64 = double;
struct Float16 {
  unsigned short bits;
};
struct Bfloat16 {
  unsigned short bits;
};

TFC_HOST_DEVICE unsigned BitsOf(float value) {
#ifdef __CUDACC__
  return __float_as_uint(value);
#else
  return cuda_host::BitsOf(value);
#endif
}

TFC_HOST_DEVICE float FloatFromBits(unsigned bits) {
#ifdef __CUDACC__
  return __uint_as_float(bits);
#else
  return cuda_host::FloatFromBits(bits);
#endif
}

/// Rounds to nearest even; NaN becomes the one NaN that the GPU's own instruction gives.
TFC_HOST_DEVICE unsigned short RoundToBfloat16(float value) {
  const unsigned wide = BitsOf(value);
  const unsigned rounded = (wide + 0x7FFF + ((wide >> 16) & 1)) >> 16;
  return static_cast<unsigned short>(value != value ? 0x7FFFu : rounded);
}

TFC_HOST_DEVICE float Widen(Bfloat16 value) { return FloatFromBits(static_cast<unsigned>(value.bits) << 16); }
TFC_HOST_DEVICE float Widen(Float16 value) {
#ifdef __CUDACC__
  float wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(value.bits));
  return wide;
#else
  return static_cast<float>(cuda_host::Float16{value.bits});
#endif
}
template <typename T>
TFC_HOST_DEVICE T Widen(T value) {
  return value;
}

TFC_HOST_DEVICE void Narrow(float value, Bfloat16* narrow) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(narrow->bits) : "f"(value));
#else
  narrow->bits = RoundToBfloat16(value);
#endif
}
TFC_HOST_DEVICE void Narrow(float value, Float16* narrow) {
#ifdef __CUDACC__
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(narrow->bits) : "f"(value));
#else
  narrow->bits = cuda_host::Float16::From(value).bits;
  if (value != value) narrow->bits = 0x7FFF;
#endif
}
template <typename T>
TFC_HOST_DEVICE void Narrow(T value, T* narrow) {
  *narrow = value;
}

template <typename T>
struct Limits;
template <>
struct Limits<Uint8> {
  static constexpr Uint8 kLeast = 0, kGreatest = 255;
};
template <>
struct Limits<Int8> {
  static constexpr Int8 kLeast = -128, kGreatest = 127;
};
template <>
struct Limits<Int32> {
  static constexpr Int32 kLeast = -2147483647 - 1, kGreatest = 2147483647;
};
template <>
struct Limits<Int64> {
  static constexpr Int64 kLeast = -9223372036854775807LL - 1, kGreatest = 9223372036854775807LL;
};

TFC_HOST_DEVICE float Multiply(float value, double factor) { return value * static_cast<float>(factor); }
TFC_HOST_DEVICE double Multiply(double value, double factor) { return value * factor; }
/// Integers are scaled as float64, truncate toward zero, and stay within their range; NaN gives 0.
template <typename T>
TFC_HOST_DEVICE T Multiply(T value, double factor) {
  // An int64 isn't always exact as a float64, and the factor 1 must change nothing.
  if (factor == 1.0) return value;
  const double product = static_cast<double>(value) * factor;
  // The upper limit of int64 rounds up to a float64 that no longer fits, hence the >=.
  if (product >= static_cast<double>(Limits<T>::kGreatest)) return Limits<T>::kGreatest;
  if (product <= static_cast<double>(Limits<T>::kLeast)) return Limits<T>::kLeast;
  return product == product ? static_cast<T>(product) : T{0};
}

}  // namespace tf_collectives::cuda
