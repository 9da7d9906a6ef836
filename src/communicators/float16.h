#pragma once

#include <cstdint>
#include <cstring>

namespace tf_collectives {
namespace TFC_REDUCTION_NAMESPACE {

inline float FloatFromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

inline uint32_t BitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

/// The upper half of a float32. Rounds to nearest even; NaN stays a (quiet) NaN.
struct Bfloat16 {
  uint16_t bits;

  explicit operator float() const { return FloatFromBits(uint32_t{bits} << 16); }
  static Bfloat16 From(float value) {
    const uint32_t wide = BitsOf(value);
    const uint32_t rounded = (wide + 0x7FFF + ((wide >> 16) & 1)) >> 16;
    const uint32_t quiet = (wide >> 16) | 0x40;
    return {static_cast<uint16_t>(value != value ? quiet : rounded)};
  }
};

/// IEEE 754 binary16. Rounds to nearest even; NaN stays a (quiet) NaN.
struct Float16 {
  uint16_t bits;

  explicit operator float() const {
    const uint32_t sign = uint32_t{bits & 0x8000u} << 16;
    const uint32_t magnitude = bits & 0x7FFFu;
    if (magnitude >= 0x7C00)
      return FloatFromBits(sign | 0x7F800000 | (magnitude & 0x3FF) << 13 | (magnitude > 0x7C00 ? 0x400000 : 0));
    // Shifting the exponent in place and multiplying by 2^112 is exact for normal and subnormal values alike.
    return FloatFromBits(sign | BitsOf(FloatFromBits(magnitude << 13) * FloatFromBits(0x77800000)));
  }
  static Float16 From(float value) {
    const uint32_t wide = BitsOf(value);
    const auto sign = static_cast<uint16_t>(wide >> 16 & 0x8000);
    const uint32_t magnitude = wide & 0x7FFFFFFF;
    if (magnitude > 0x7F800000) return {static_cast<uint16_t>(sign | 0x7E00 | (magnitude >> 13 & 0x3FF))};
    if (magnitude >= 0x477FF000) return {static_cast<uint16_t>(sign | 0x7C00)};
    if (magnitude < 0x38800000) {
      // Adding 0.5 leaves the rounded subnormal in the low bits.
      return {static_cast<uint16_t>(sign | (BitsOf(FloatFromBits(magnitude) + 0.5f) - 0x3F000000))};
    }
    const uint32_t rounded = magnitude - 0x38000000 + 0xFFF + (magnitude >> 13 & 1);
    return {static_cast<uint16_t>(sign | rounded >> 13)};
  }
};

}  // namespace TFC_REDUCTION_NAMESPACE
}  // namespace tf_collectives
