#include "nccl/reduction.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace cuda_standin {
namespace {

// Conversions of the compiler's own, so that a mistake in the project's can't hide here.
struct Half {
  using Wide = float;
  static float Widen(_Float16 value) { return static_cast<float>(value); }
  static _Float16 Narrow(float value) { return static_cast<_Float16>(value); }
  using Stored = _Float16;
};

struct Bfloat16 {
  using Wide = float;
  using Stored = uint16_t;
  static float Widen(uint16_t value) {
    const uint32_t bits = uint32_t{value} << 16;
    float wide;
    std::memcpy(&wide, &bits, sizeof wide);
    return wide;
  }
  static uint16_t Narrow(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    if (value != value) return static_cast<uint16_t>(bits >> 16 | 0x40);
    return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
};

template <typename Type>
struct Plain {
  using Wide = Type;
  using Stored = Type;
  static Type Widen(Type value) { return value; }
  static Type Narrow(Type value) { return value; }
};

// Integers wrap around, as on a device.
template <typename Wide>
Wide Combine(Wide a, Wide b, ncclRedOp_t op) {
  if (op == ncclMax) return a > b || a != a ? a : b;
  if (op == ncclMin) return a < b || a != a ? a : b;
  if constexpr (std::is_integral_v<Wide>) {
    const auto x = static_cast<uint64_t>(a);
    const auto y = static_cast<uint64_t>(b);
    return static_cast<Wide>(op == ncclProd ? x * y : x + y);
  } else {
    return op == ncclProd ? a * b : a + b;
  }
}

template <typename Type>
struct Work {
  using Stored = typename Type::Stored;
  using Wide = typename Type::Wide;

  static Wide Load(const char* from, size_t index) {
    Stored value;
    std::memcpy(&value, from + index * sizeof value, sizeof value);
    return Type::Widen(value);
  }
  static void Store(char* to, size_t index, Wide wide) {
    const Stored value = Type::Narrow(wide);
    std::memcpy(to + index * sizeof value, &value, sizeof value);
  }
  static void Reduce(const std::vector<const char*>& inputs, char* output, size_t count, ncclRedOp_t op) {
    for (size_t index = 0; index < count; ++index) {
      Wide total = Load(inputs[0], index);
      for (size_t rank = 1; rank < inputs.size(); ++rank) total = Combine(total, Load(inputs[rank], index), op);
      if (op == ncclAvg) total = total / static_cast<Wide>(inputs.size());
      Store(output, index, total);
    }
  }
  static void Multiply(const char* input, char* output, size_t count, double factor) {
    for (size_t index = 0; index < count; ++index)
      Store(output, index, static_cast<Wide>(Load(input, index) * static_cast<Wide>(factor)));
  }
};

template <typename Function>
void WithType(ncclDataType_t dtype, const Function& function) {
  switch (dtype) {
    case ncclInt8:
      return function(Work<Plain<int8_t>>());
    case ncclUint8:
      return function(Work<Plain<uint8_t>>());
    case ncclInt32:
      return function(Work<Plain<int32_t>>());
    case ncclUint32:
      return function(Work<Plain<uint32_t>>());
    case ncclInt64:
      return function(Work<Plain<int64_t>>());
    case ncclUint64:
      return function(Work<Plain<uint64_t>>());
    case ncclFloat16:
      return function(Work<Half>());
    case ncclFloat32:
      return function(Work<Plain<float>>());
    case ncclFloat64:
      return function(Work<Plain<double>>());
    case ncclBfloat16:
      return function(Work<Bfloat16>());
    default:
      return;
  }
}

}  // namespace

void Reduce(const std::vector<const char*>& inputs, char* output, size_t count, ncclDataType_t dtype, ncclRedOp_t op) {
  WithType(dtype, [&](auto work) { work.Reduce(inputs, output, count, op); });
}

void Multiply(const char* input, char* output, size_t count, ncclDataType_t dtype, double factor) {
  WithType(dtype, [&](auto work) { work.Multiply(input, output, count, factor); });
}

double ReadScalar(const void* scalar, ncclDataType_t dtype) {
  double value = 0;
  WithType(dtype, [&](auto work) { value = static_cast<double>(work.Load(static_cast<const char*>(scalar), 0)); });
  return value;
}

}  // namespace cuda_standin
