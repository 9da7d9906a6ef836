#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tf_collectives/export.h"
#include "tf_collectives/types.h"

namespace tf_collectives {

/// Shape and element type of one tensor.
struct TFC_EXPORT TensorSpec {
  DataType dtype = DataType::kFloat32;
  std::vector<int64_t> shape;

  int64_t elements() const;
  size_t bytes() const { return static_cast<size_t>(elements()) * SizeOf(dtype); }
  bool operator==(const TensorSpec& other) const { return dtype == other.dtype && shape == other.shape; }
};

/// What the ranks agree on before a collective runs. A grouped collective is one request with several tensors.
struct TFC_EXPORT Request {
  /// The name that matches this request with those of the other ranks; empty for unnamed eager calls.
  std::string name;
  CollectiveKind kind = CollectiveKind::kAllReduce;
  DeviceKind device = DeviceKind::kCpu;
  ReduceOp reduce_op = ReduceOp::kSum;
  int32_t root_rank = 0;
  double prescale_factor = 1.0;
  double postscale_factor = 1.0;
  std::vector<TensorSpec> tensors;
};

/// First dimension of every rank's tensor in an all-gather, as [tensor][rank].
using GatherSizes = std::vector<std::vector<int64_t>>;

}  // namespace tf_collectives
