#define TFC_REDUCTION_NAMESPACE reference
#include "communicators/reduction.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "communicators/float16.h"
#include "testing.h"

namespace tf_collectives {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("");

template <typename T>
std::vector<T> Run(ReduceFunction function, const std::vector<std::vector<T>>& inputs, double prescale = 1.0,
                   double postscale = 1.0) {
  std::vector<const void*> sources;
  for (const std::vector<T>& input : inputs) sources.push_back(input.data());
  std::vector<T> result(inputs[0].size());
  function({sources.data(), static_cast<int>(sources.size()), result.data(), result.size(), prescale, postscale});
  return result;
}

template <typename T>
std::vector<T> Run(DataType dtype, ReduceOp op, const std::vector<std::vector<T>>& inputs, double prescale = 1.0,
                   double postscale = 1.0) {
  return Run(FindReduceFunction(dtype, op), inputs, prescale, postscale);
}

TEST(IntegerSumsAndProductsWrap) {
  CHECK_EQ(Run<int32_t>(DataType::kInt32, ReduceOp::kSum, {{2147483647, -5}, {1, 3}}),
           (std::vector<int32_t>{-2147483647 - 1, -2}));
  CHECK_EQ(Run<int64_t>(DataType::kInt64, ReduceOp::kProduct, {{int64_t{1} << 62}, {2}, {3}}),
           (std::vector<int64_t>{std::numeric_limits<int64_t>::min()}));
  CHECK_EQ(int{Run<uint8_t>(DataType::kUint8, ReduceOp::kSum, {{200}, {100}})[0]}, 44);
}

TEST(IntegerAveragesDoNotOverflowAndTruncateTowardZero) {
  CHECK_EQ(int{Run<int8_t>(DataType::kInt8, ReduceOp::kAverage, {{100}, {101}})[0]}, 100);
  CHECK_EQ(int{Run<int8_t>(DataType::kInt8, ReduceOp::kAverage, {{-100}, {-101}})[0]}, -100);
  const int64_t most = std::numeric_limits<int64_t>::max();
  CHECK_EQ(Run<int64_t>(DataType::kInt64, ReduceOp::kAverage, {{most, -most}, {most, -most}}),
           (std::vector<int64_t>{most, -most}));
}

TEST(ScaledIntegersTruncateAndSaturate) {
  CHECK_EQ(Run<int32_t>(DataType::kInt32, ReduceOp::kSum, {{7}, {-7}}, 0.5), (std::vector<int32_t>{0}));
  CHECK_EQ(Run<int32_t>(DataType::kInt32, ReduceOp::kSum, {{7}, {8}}, 1.0, 0.5), (std::vector<int32_t>{7}));
  CHECK_EQ(int{Run<uint8_t>(DataType::kUint8, ReduceOp::kMax, {{200}, {1}}, 2.0)[0]}, 255);
}

TEST(MinAndMaxPropagateNanFromAnyRank) {
  for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
    const std::vector<float> result = Run<float>(DataType::kFloat32, op, {{kNan, 1, 3}, {1, kNan, 2}});
    CHECK(std::isnan(result[0]) && std::isnan(result[1]));
    CHECK_EQ(result[2], op == ReduceOp::kMin ? 2.0f : 3.0f);
  }
}

TEST(Float16ConvertsEveryValueThereAndBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const reference::Float16 half{static_cast<uint16_t>(bits)};
    const auto value = static_cast<float>(half);
    const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    const float sign = bits & 0x8000 ? -1.0f : 1.0f;
    if (exponent == 31 && mantissa != 0) {
      CHECK(std::isnan(value));
      CHECK(std::isnan(static_cast<float>(reference::Float16::From(value))));
      continue;
    }
    const float expected = exponent == 31  ? sign * kInfinity
                           : exponent == 0 ? sign * std::ldexp(mantissa, -24)
                                           : sign * std::ldexp(1024 + mantissa, exponent - 25);
    CHECK_EQ(value, expected);
    CHECK_EQ(reference::Float16::From(value).bits, half.bits);
  }
}

TEST(Float16RoundsToNearestEven) {
  CHECK_EQ(reference::Float16::From(2049.0f).bits, reference::Float16::From(2048.0f).bits);
  CHECK_EQ(reference::Float16::From(2051.0f).bits, reference::Float16::From(2052.0f).bits);
  CHECK_EQ(reference::Float16::From(65519.0f).bits, uint16_t{0x7BFF});
  CHECK_EQ(reference::Float16::From(65520.0f).bits, uint16_t{0x7C00});
  CHECK_EQ(reference::Float16::From(std::ldexp(1.0f, -25)).bits, uint16_t{0});
  CHECK_EQ(reference::Float16::From(std::ldexp(3.0f, -25)).bits, uint16_t{2});
}

TEST(Bfloat16RoundsToNearestEven) {
  CHECK_EQ(reference::Bfloat16::From(1.0f).bits, uint16_t{0x3F80});
  CHECK_EQ(reference::Bfloat16::From(reference::FloatFromBits(0x3F808000)).bits, uint16_t{0x3F80});
  CHECK_EQ(reference::Bfloat16::From(reference::FloatFromBits(0x3F818000)).bits, uint16_t{0x3F82});
  CHECK(std::isnan(static_cast<float>(reference::Bfloat16::From(kNan))));
}

TEST(Float16AccumulatesInFloat32) {
  // 2048 + 1 + 1 is 2050 in float32 and would stay 2048 if rounded after every step.
  std::vector<std::vector<uint16_t>> inputs;
  for (const float value : {2048.0f, 1.0f, 1.0f})
    inputs.push_back(std::vector<uint16_t>(19, reference::Float16::From(value).bits));
  const std::vector<uint16_t> expected(19, reference::Float16::From(2050.0f).bits);
  CHECK_EQ(Run<uint16_t>(DataType::kFloat16, ReduceOp::kSum, inputs), expected);
}

TEST(AllInstructionSetsAgreeBitwise) {
  std::mt19937 random(7);
  for (const DataType dtype : {DataType::kUint8, DataType::kInt8, DataType::kInt32, DataType::kInt64,
                               DataType::kFloat16, DataType::kBfloat16, DataType::kFloat32, DataType::kFloat64}) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
      for (const double scale : {1.0, 0.3}) {
        const size_t bytes = 2501 * SizeOf(dtype);
        std::vector<std::vector<uint8_t>> inputs(3, std::vector<uint8_t>(bytes));
        for (std::vector<uint8_t>& input : inputs) {
          // Exponents near 1, so that results are neither all infinite nor all zero; NaN payloads may differ and are
          // avoided.
          for (size_t i = 0; i < bytes; ++i)
            input[i] = static_cast<uint8_t>(random() & (i % SizeOf(dtype) == SizeOf(dtype) - 1 ? 0xBB : 0xFF));
        }
        std::vector<const void*> sources;
        for (const std::vector<uint8_t>& input : inputs) sources.push_back(input.data());
        std::vector<uint8_t> chosen(bytes), plain(bytes);
        const auto run = [&](ReduceFunction function, std::vector<uint8_t>* result) {
          function({sources.data(), 3, result->data(), bytes / SizeOf(dtype), scale, scale});
        };
        run(FindReduceFunction(dtype, op), &chosen);
        run(baseline::FindReduceFunction(dtype, op), &plain);
        if (chosen != plain)
          testing::Fail(__FILE__, __LINE__, std::string(NameOf(dtype)) + " " + NameOf(op) + " differs");
      }
    }
  }
}

TEST(ResultMayReplaceASource) {
  std::vector<float> a(3000, 1.5f), b(3000, 2.0f);
  const void* sources[] = {a.data(), b.data()};
  FindReduceFunction(DataType::kFloat32, ReduceOp::kSum)({sources, 2, a.data(), a.size(), 1.0, 1.0});
  CHECK_EQ(a, std::vector<float>(3000, 3.5f));
}

}  // namespace
}  // namespace tf_collectives
