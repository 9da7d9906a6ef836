#include "testing.h"
#include "tf_collectives/fusion.h"

namespace tf_collectives {
namespace {

Request MakeRequest(std::vector<TensorSpec> tensors, CollectiveKind kind = CollectiveKind::kAllReduce) {
  Request request;
  request.kind = kind;
  request.tensors = std::move(tensors);
  return request;
}

/// The plan as [batch][request], and as [batch] bytes.
std::vector<std::vector<int>> PlanOf(const std::vector<Request>& requests, int64_t threshold) {
  std::vector<const Request*> ready;
  for (const Request& request : requests) ready.push_back(&request);
  std::vector<std::vector<int>> plan;
  for (const FusionBatch& batch : PlanFusion(ready, threshold)) {
    std::vector<int>& members = plan.emplace_back();
    for (const BatchMember& member : batch.members) members.push_back(member.request);
  }
  return plan;
}

using Plan = std::vector<std::vector<int>>;
const TensorSpec kFloats{DataType::kFloat32, {10}};   // 40 bytes
const TensorSpec kDoubles{DataType::kFloat64, {10}};  // 80 bytes

TEST(FusesUpToTheThreshold) {
  const std::vector<Request> requests(5, MakeRequest({kFloats}));
  CHECK_EQ(PlanOf(requests, 200), (Plan{{0, 1, 2, 3, 4}}));
  CHECK_EQ(PlanOf(requests, 199), (Plan{{0, 1, 2, 3}, {4}}));
  CHECK_EQ(PlanOf(requests, 80), (Plan{{0, 1}, {2, 3}, {4}}));
}

TEST(AThresholdOfZeroFusesNothing) {
  const std::vector<Request> requests(3, MakeRequest({TensorSpec{DataType::kFloat32, {0}}}));
  CHECK_EQ(PlanOf(requests, 0), (Plan{{0}, {1}, {2}}));
}

TEST(ATensorOverTheThresholdTravelsAlone) {
  CHECK_EQ(PlanOf({MakeRequest({kFloats}), MakeRequest({kFloats})}, 10), (Plan{{0}, {1}}));
}

TEST(LooksPastOtherTypes) {
  CHECK_EQ(PlanOf({MakeRequest({kFloats}), MakeRequest({kDoubles}), MakeRequest({kFloats})}, 1000),
           (Plan{{0, 2}, {1}}));
}

TEST(SeparatesKindsOperationsAndRoots) {
  std::vector<Request> requests(4, MakeRequest({kFloats}));
  requests[1].reduce_op = ReduceOp::kMax;
  requests[2].kind = CollectiveKind::kBroadcast;
  requests[3].kind = CollectiveKind::kBroadcast;
  requests[3].root_rank = 1;
  CHECK_EQ(PlanOf(requests, 1000), (Plan{{0}, {1}, {2}, {3}}));
}

TEST(AGroupIsNeverSeparated) {
  const Request group = MakeRequest({kFloats, kFloats, kFloats});
  CHECK_EQ(PlanOf({MakeRequest({kFloats}), group, MakeRequest({kFloats})}, 100), (Plan{{0}, {1}, {2}}));
}

TEST(AGroupOfTwoTypesTravelsAsTwo) {
  const Request group = MakeRequest({kFloats, kDoubles, kFloats});
  const std::vector<FusionBatch> plan = PlanFusion({&group}, 1000);
  CHECK_EQ(plan.size(), size_t{2});
  CHECK_EQ(plan[0].members[0].tensors, (std::vector<int>{0, 2}));
  CHECK_EQ(plan[1].members[0].tensors, (std::vector<int>{1}));
  CHECK_EQ(plan[0].bytes, 80);
}

}  // namespace
}  // namespace tf_collectives
