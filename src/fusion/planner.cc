#include <map>

#include "tf_collectives/fusion.h"

namespace tf_collectives {
namespace {

/// The tensors of one request that have one dtype: what is never separated.
struct Unit {
  const Request* request = nullptr;
  DataType dtype = DataType::kFloat32;
  BatchMember member;
  int64_t bytes = 0;
};

std::vector<Unit> SplitByType(const std::vector<const Request*>& ready) {
  std::vector<Unit> units;
  for (size_t r = 0; r < ready.size(); ++r) {
    std::map<DataType, size_t> unit_of;
    const std::vector<TensorSpec>& tensors = ready[r]->tensors;
    for (size_t t = 0; t < tensors.size(); ++t) {
      const auto [entry, is_new] = unit_of.emplace(tensors[t].dtype, units.size());
      if (is_new) units.push_back({ready[r], tensors[t].dtype, {static_cast<int>(r), {}}, 0});
      Unit& unit = units[entry->second];
      unit.member.tensors.push_back(static_cast<int>(t));
      unit.bytes += static_cast<int64_t>(tensors[t].bytes());
    }
  }
  return units;
}

bool CanTravelTogether(const Unit& a, const Unit& b) {
  return a.dtype == b.dtype && a.request->kind == b.request->kind && a.request->device == b.request->device &&
         a.request->reduce_op == b.request->reduce_op && a.request->root_rank == b.request->root_rank;
}

}  // namespace

std::vector<FusionBatch> PlanFusion(const std::vector<const Request*>& ready, int64_t threshold) {
  struct Open {
    const Unit* first;
    size_t batch;
  };
  const std::vector<Unit> units = SplitByType(ready);
  std::vector<FusionBatch> batches;
  // At most one batch per kind, dtype, operation and root takes more; a few at a time, so a linear search is quickest.
  std::vector<Open> open;
  for (const Unit& unit : units) {
    Open* found = nullptr;
    for (Open& candidate : open) {
      if (CanTravelTogether(*candidate.first, unit)) found = &candidate;
    }
    if (found == nullptr) found = &open.emplace_back(Open{nullptr, 0});
    const bool fits = found->first != nullptr && batches[found->batch].bytes + unit.bytes <= threshold && threshold > 0;
    if (!fits) {
      *found = {&unit, batches.size()};
      batches.emplace_back();
    }
    FusionBatch& batch = batches[found->batch];
    batch.members.push_back(unit.member);
    batch.bytes += unit.bytes;
  }
  return batches;
}

}  // namespace tf_collectives
