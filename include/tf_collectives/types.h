#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tf_collectives/export.h"

namespace tf_collectives {

enum class DataType : uint8_t {
  kBool,
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kUint64,
  kInt64,
  kFloat16,
  kBfloat16,
  kFloat32,
  kFloat64,
  kComplex64,
  kComplex128,
};

enum class CollectiveKind : uint8_t { kAllReduce, kAllGather, kBroadcast };

/// Where the memory of a request lies. All ranks must agree on it.
enum class DeviceKind : uint8_t { kCpu, kGpu };

enum class ReduceOp : uint8_t { kSum, kAverage, kMin, kMax, kProduct };

/// Bytes of one element.
TFC_EXPORT size_t SizeOf(DataType dtype);
/// The name that TensorFlow and NumPy use, such as "float32".
TFC_EXPORT const char* NameOf(DataType dtype);
TFC_EXPORT const char* NameOf(CollectiveKind kind);
TFC_EXPORT const char* NameOf(ReduceOp op);
TFC_EXPORT const char* NameOf(DeviceKind device);

TFC_EXPORT bool ParseDataType(const std::string& name, DataType* dtype);
TFC_EXPORT bool ParseReduceOp(const std::string& name, ReduceOp* op);
/// Whether elements of this type can be summed, averaged, compared and multiplied.
TFC_EXPORT bool IsReducible(DataType dtype);

}  // namespace tf_collectives
