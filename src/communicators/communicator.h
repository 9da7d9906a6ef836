#pragma once

#include <vector>

#include "tf_collectives/status.h"
#include "tf_collectives/types.h"

namespace tf_collectives {

/// Tensors of one kind, dtype, operation and root that travel together. The memory of a tensor is named by pointers,
/// never gathered in a buffer first: the communicators for CPU memory copy each tensor once in and once out.
struct Batch {
  struct Segment {
    const void* input = nullptr;
    /// Null where this rank has no memory for the result: it takes part for the sake of the others.
    void* output = nullptr;
    /// Of the input on this rank.
    size_t bytes = 0;
    double prescale_factor = 1.0;
    double postscale_factor = 1.0;
    /// All-gather: what each rank contributes.
    std::vector<size_t> rank_bytes;
  };

  CollectiveKind kind = CollectiveKind::kAllReduce;
  DataType dtype = DataType::kFloat32;
  ReduceOp reduce_op = ReduceOp::kSum;
  int root_rank = 0;
  std::vector<Segment> segments;

  size_t TotalBytes() const;
};

/// Moves data between the ranks. Every rank calls Run with matching batches in the same order.
class Communicator {
 public:
  virtual ~Communicator() = default;

  /// Returns when the outputs are there. After an error the communicator is of no more use.
  virtual Status Run(const Batch& batch) = 0;
};

}  // namespace tf_collectives
