#pragma once

#include <cstdint>
#include <vector>

#include "tf_collectives/export.h"
#include "tf_collectives/request.h"

namespace tf_collectives {

/// Tensors of one request that a batch carries, by index.
struct BatchMember {
  int request = 0;
  std::vector<int> tensors;
};

/// Tensors that travel together. All have one kind, dtype, reduce operation and root.
struct FusionBatch {
  std::vector<BatchMember> members;
  int64_t bytes = 0;
};

/// Decides which of the ready requests travel together: first come, first served, looking past requests of another
/// kind, dtype, operation or root, until `threshold` bytes are reached. The tensors of one request (an explicit group)
/// that have one dtype are never separated, whatever their size. A threshold of 0 switches fusing off.
///
/// Every rank computes the same plan from the same list, so plans are never sent.
TFC_EXPORT std::vector<FusionBatch> PlanFusion(const std::vector<const Request*>& ready, int64_t threshold);

/// Counters of this process since its start or the last reset.
struct FusionStatistics {
  int64_t tensors = 0;
  int64_t batches = 0;
  int64_t bytes = 0;
  int64_t cache_hits = 0;
  int64_t cache_misses = 0;
};

}  // namespace tf_collectives
