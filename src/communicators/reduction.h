#pragma once

#include <cstddef>

#include "tf_collectives/types.h"

namespace tf_collectives {

/// Combines `count` elements of each source into `destination`. Sources are taken in rank order and 16-bit floats
/// accumulate in float32, so that a result depends on nothing but the values. `destination` may be one of the sources.
struct Reduction {
  const void* const* sources = nullptr;
  int source_count = 0;
  void* destination = nullptr;
  size_t count = 0;
  double prescale_factor = 1.0;
  double postscale_factor = 1.0;
};

using ReduceFunction = void (*)(const Reduction&);

/// The function for this processor. Integer averages and scaled integers truncate toward zero; integer sums and
/// products wrap; min and max of floats give NaN where any rank has NaN, as NumPy does.
ReduceFunction FindReduceFunction(DataType dtype, ReduceOp op);

namespace baseline {
ReduceFunction FindReduceFunction(DataType dtype, ReduceOp op);
}
namespace avx2 {
ReduceFunction FindReduceFunction(DataType dtype, ReduceOp op);
}

}  // namespace tf_collectives
