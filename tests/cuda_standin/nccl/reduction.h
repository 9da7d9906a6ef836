#pragma once

#include <vector>

#include "nccl/operation.h"

namespace cuda_standin {

/// Reduces in the order of the inputs; 16-bit floats in float32 with one rounding at the end, which is more exact than
/// NCCL. An average of integers truncates.
void Reduce(const std::vector<const char*>& inputs, char* output, size_t count, ncclDataType_t dtype, ncclRedOp_t op);

/// What PreMulSum does to each input.
void Multiply(const char* input, char* output, size_t count, ncclDataType_t dtype, double factor);

/// The scalar of a PreMulSum, which has the type of the values.
double ReadScalar(const void* scalar, ncclDataType_t dtype);

}  // namespace cuda_standin
