#include "negotiation/message.h"

#include "testing.h"

namespace tf_collectives {
namespace {

Request Sample() {
  Request request;
  request.name = std::string("odd \0 name \xff", 12);
  request.kind = CollectiveKind::kBroadcast;
  request.root_rank = 3;
  request.prescale_factor = 0.1;
  request.tensors = {{DataType::kInt8, {}}, {DataType::kComplex128, {0, 5, int64_t{1} << 40}}};
  return request;
}

TEST(ARequestSurvivesTheWire) {
  Request decoded;
  CHECK(DecodeRequest(EncodeRequest(Sample()), &decoded));
  CHECK_EQ(decoded.name, Sample().name);
  CHECK_EQ(decoded.root_rank, 3);
  CHECK_EQ(decoded.prescale_factor, 0.1);
  CHECK(decoded.tensors == Sample().tensors);
}

TEST(EqualRequestsAndOnlyTheyHaveEqualBytes) {
  Request other = Sample();
  CHECK_EQ(EncodeRequest(other), EncodeRequest(Sample()));
  other.tensors[1].shape[0] = 1;
  CHECK(EncodeRequest(other) != EncodeRequest(Sample()));
}

TEST(EveryRankMessageSurvivesTheWire) {
  RankMessage decoded;
  CHECK(DecodeMessage(Encode(RankMessage{5, Announcement{2, 0, "request"}}), &decoded));
  CHECK_EQ(decoded.decisions_seen, uint64_t{5});
  CHECK_EQ(std::get<Announcement>(decoded.content).request, "request");
  CHECK(DecodeMessage(Encode(RankMessage{5, FailureReport{3, {StatusCode::kAborted, "why"}}}), &decoded));
  CHECK_EQ(std::get<FailureReport>(decoded.content).status.message(), "why");
  CHECK(DecodeMessage(Encode(RankMessage{6, Farewell{}}), &decoded));
  CHECK(std::holds_alternative<Farewell>(decoded.content));
}

TEST(AnAnnouncementByIdIsShort) { CHECK(Encode(RankMessage{5, Announcement{2, 17, ""}}).size() <= 17); }

TEST(EveryDecisionSurvivesTheWire) {
  Decision decoded;
  const Execution execution{
      77, {4, 5}, {{9, true, "", {}}, {10, false, "name", {{1, 0}, {2, 3}}}, {0, false, "uncached", {}}}};
  CHECK(DecodeDecision(Encode(Decision{execution}), &decoded));
  const auto& got = std::get<Execution>(decoded);
  CHECK_EQ(got.fusion_threshold, 77);
  CHECK_EQ(got.evicted, execution.evicted);
  CHECK(got.requests[0].known && got.requests[0].cache_id == 9);
  CHECK_EQ(got.requests[1].name, "name");
  CHECK_EQ(got.requests[1].sizes, (GatherSizes{{1, 0}, {2, 3}}));
  CHECK(!got.requests[2].known && got.requests[2].cache_id == 0);
  CHECK(DecodeDecision(Encode(Decision{Failure{8, {StatusCode::kUnavailable, "gone"}}}), &decoded));
  CHECK_EQ(std::get<Failure>(decoded).epoch, 8u);
  CHECK(DecodeDecision(Encode(Decision{Departure{2}}), &decoded));
  CHECK_EQ(std::get<Departure>(decoded).rank, 2);
}

TEST(ATruncatedMessageIsRefused) {
  const std::string whole = Encode(Decision{Execution{1, {}, {{1, false, "name", {{1, 2}}}}}});
  for (size_t length = 0; length < whole.size(); ++length) {
    Decision decoded;
    CHECK(!DecodeDecision(whole.substr(0, length), &decoded));
  }
}

}  // namespace
}  // namespace tf_collectives
