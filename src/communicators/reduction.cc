#include "communicators/reduction.h"

namespace tf_collectives {

ReduceFunction FindReduceFunction(DataType dtype, ReduceOp op) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c")) return avx2::FindReduceFunction(dtype, op);
#endif
  return baseline::FindReduceFunction(dtype, op);
}

}  // namespace tf_collectives
