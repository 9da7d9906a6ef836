#include "negotiation/coordinator.h"

#include "testing.h"

namespace tf_collectives {
namespace {

using std::chrono::seconds;
const Clock::time_point kStart{};

Request Named(const std::string& name, std::vector<int64_t> shape = {3}) {
  Request request;
  request.name = name;
  request.tensors = {{DataType::kFloat32, std::move(shape)}};
  return request;
}

/// A coordinator and the ranks' side of the conversation.
class Conversation {
 public:
  explicit Conversation(int size, int64_t cache_capacity = 4)
      : coordinator_({size, cache_capacity, seconds(60), seconds(600)}) {}

  void Announce(int rank, const Request& request, uint32_t epoch = 0, Clock::time_point now = kStart) {
    coordinator_.Receive(rank, {seen_, Announcement{epoch, 0, EncodeRequest(request)}}, now);
  }
  void AnnounceById(int rank, uint32_t id, uint32_t epoch = 0) {
    coordinator_.Receive(rank, {seen_, Announcement{epoch, id, ""}}, kStart);
  }
  void Report(int rank, uint32_t epoch, const std::string& text) {
    coordinator_.Receive(rank, {seen_, FailureReport{epoch, {StatusCode::kCancelled, text}}}, kStart);
  }
  std::vector<Decision> Decisions() {
    std::vector<Decision> decisions = coordinator_.TakeDecisions();
    seen_ += decisions.size();
    return decisions;
  }
  /// The only decision, which must run something.
  Execution Executed() {
    const std::vector<Decision> decisions = Decisions();
    CHECK_EQ(decisions.size(), size_t{1});
    return decisions.empty() ? Execution{} : std::get<Execution>(decisions[0]);
  }
  Failure Failed() {
    const std::vector<Decision> decisions = Decisions();
    CHECK_EQ(decisions.size(), size_t{1});
    return decisions.empty() ? Failure{} : std::get<Failure>(decisions.back());
  }
  Coordinator& coordinator() { return coordinator_; }

 private:
  Coordinator coordinator_;
  uint64_t seen_ = 0;
};

std::vector<std::string> Names(const Execution& execution) {
  std::vector<std::string> names;
  for (const ScheduledRequest& request : execution.requests) names.push_back(request.name);
  return names;
}

TEST(RunsWhatAllRanksHaveInTheOrderOfCompletion) {
  Conversation talk(2);
  talk.Announce(0, Named("a"));
  talk.Announce(0, Named("b"));
  CHECK(talk.Decisions().empty());
  talk.Announce(1, Named("b"));
  talk.Announce(1, Named("a"));
  CHECK_EQ(Names(talk.Executed()), (std::vector<std::string>{"b", "a"}));
}

TEST(TheKthUseOfANameMatchesTheKth) {
  Conversation talk(2);
  for (int i = 0; i < 3; ++i) talk.Announce(0, Named("a", {i}));
  talk.Announce(1, Named("a", {0}));
  CHECK_EQ(Names(talk.Executed()).size(), size_t{1});
  talk.Announce(1, Named("a", {7}));
  CHECK_CONTAINS(talk.Failed().status.message(),
                 "rank 0: AllReduce [1] float32 sum\n  rank 1: AllReduce [7] float32 sum");
}

TEST(AMismatchNamesCampsAndMissingRanks) {
  Conversation talk(5);
  talk.Announce(3, Named("grads/kernel", {784, 64}));
  talk.Announce(0, Named("grads/kernel", {784, 128}));
  const Failure failure = talk.Failed();
  CHECK_EQ(failure.epoch, 1u);
  CHECK_EQ(failure.status.code(), StatusCode::kInvalidArgument);
  CHECK_CONTAINS(failure.status.message(), "AllReduce 'grads/kernel': ranks disagree on the shape.");
  CHECK_CONTAINS(failure.status.message(), "rank 0: AllReduce [784, 128] float32 sum");
  CHECK_CONTAINS(failure.status.message(), "rank 3: AllReduce [784, 64] float32 sum");
  CHECK_CONTAINS(failure.status.message(), "ranks 1, 2, 4: not submitted yet");
}

TEST(EveryAspectIsCompared) {
  Request base = Named("a");
  base.kind = CollectiveKind::kBroadcast;
  std::vector<std::pair<std::string, Request>> variants(7, {"", base});
  variants[0] = {"collective", base};
  variants[0].second.kind = CollectiveKind::kAllReduce;
  variants[1] = {"number of tensors", base};
  variants[1].second.tensors.resize(2);
  variants[2] = {"dtype", base};
  variants[2].second.tensors[0].dtype = DataType::kInt32;
  variants[3] = {"reduce operation", base};
  variants[3].second.reduce_op = ReduceOp::kMax;
  variants[4] = {"root rank", base};
  variants[4].second.root_rank = 1;
  variants[5] = {"scale factors", base};
  variants[5].second.prescale_factor = 0.5;
  variants[6] = {"device", base};
  variants[6].second.device = DeviceKind::kGpu;
  for (const auto& [aspect, variant] : variants) {
    Conversation talk(2);
    talk.Announce(0, base);
    talk.Announce(1, variant);
    CHECK_CONTAINS(talk.Failed().status.message(), "ranks disagree on the " + aspect + ".");
  }
}

TEST(AnAllGatherMayDifferInTheFirstDimensionOnly) {
  Conversation talk(2);
  Request a = Named("a", {2, 3}), b = Named("a", {0, 3});
  a.kind = b.kind = CollectiveKind::kAllGather;
  talk.Announce(0, a);
  talk.Announce(1, b);
  CHECK_EQ(talk.Executed().requests[0].sizes, (GatherSizes{{2, 0}}));
  b.tensors[0].shape = {2, 4};
  talk.Announce(0, a);
  talk.Announce(1, b);
  CHECK_CONTAINS(talk.Failed().status.message(), "shape");
}

TEST(AnAgreedRequestIsKnownByItsId) {
  Conversation talk(2);
  talk.Announce(0, Named("a"));
  talk.Announce(1, Named("a"));
  const uint32_t id = talk.Executed().requests[0].cache_id;
  talk.AnnounceById(0, id);
  talk.AnnounceById(1, id);
  const Execution second = talk.Executed();
  CHECK(second.requests[0].known);
  CHECK_EQ(second.requests[0].cache_id, id);
}

TEST(AnIdAndAFullRequestAreCompared) {
  Conversation talk(2);
  talk.Announce(0, Named("a"));
  talk.Announce(1, Named("a"));
  const uint32_t id = talk.Executed().requests[0].cache_id;
  talk.AnnounceById(0, id);
  talk.Announce(1, Named("a", {4}));
  CHECK_CONTAINS(talk.Failed().status.message(),
                 "rank 0: AllReduce [3] float32 sum\n  rank 1: AllReduce [4] float32 sum");
}

TEST(AnEvictedIdStillCountsUntilAllKnowOfTheEviction) {
  Conversation talk(2, 1);
  talk.Announce(0, Named("a"));
  talk.Announce(1, Named("a"));
  const uint32_t id = talk.Executed().requests[0].cache_id;
  talk.Announce(0, Named("b"));
  talk.Announce(1, Named("b"));
  // Under way before rank 0 heard of the eviction.
  talk.AnnounceById(0, id);
  const Execution evicting = talk.Executed();
  CHECK_EQ(evicting.evicted, (std::vector<uint32_t>{id}));
  talk.Announce(1, Named("a"));
  const Execution again = talk.Executed();
  CHECK_EQ(Names(again), (std::vector<std::string>{"a"}));
  CHECK(!again.requests[0].known && again.requests[0].cache_id != id);
}

TEST(AFailureForgetsItsEpochAndDropsLateAnnouncements) {
  Conversation talk(2);
  talk.Announce(0, Named("a"));
  talk.Report(0, 1, "first");
  talk.Report(1, 1, "second");
  CHECK_EQ(talk.Failed().status.message(), "first");
  talk.Announce(1, Named("a"), 0);
  CHECK(talk.Decisions().empty());
  talk.Announce(0, Named("a"), 1);
  CHECK(talk.Decisions().empty());
  talk.Announce(1, Named("a"), 1);
  CHECK_EQ(Names(talk.Executed()), (std::vector<std::string>{"a"}));
}

TEST(WhatWasReadyBeforeAFailureStillRuns) {
  Conversation talk(2);
  talk.Announce(0, Named("a"));
  talk.Announce(1, Named("a"));
  talk.Report(1, 1, "later");
  const std::vector<Decision> decisions = talk.Decisions();
  CHECK_EQ(decisions.size(), size_t{2});
  CHECK(std::holds_alternative<Execution>(decisions[0]) && std::holds_alternative<Failure>(decisions[1]));
}

TEST(WarnsOnceThenTimesOut) {
  Conversation talk(3);
  talk.Announce(1, Named("a"), 0, kStart);
  CHECK(talk.coordinator().NextCheck() == kStart + seconds(60));
  CHECK(talk.coordinator().CheckWaiting(kStart + seconds(59)).empty());
  const std::vector<std::string> warnings = talk.coordinator().CheckWaiting(kStart + seconds(60));
  CHECK_EQ(warnings.size(), size_t{1});
  CHECK_CONTAINS(warnings[0], "'a' (AllReduce [3] float32 sum) of rank 1 waits for ranks 0, 2");
  CHECK(talk.coordinator().NextCheck() == kStart + seconds(600));
  CHECK(talk.coordinator().CheckWaiting(kStart + seconds(600)).empty());
  const Failure failure = talk.Failed();
  CHECK_EQ(failure.status.code(), StatusCode::kDeadlineExceeded);
  CHECK_CONTAINS(failure.status.message(), "waits for ranks 0, 2");
  CHECK(!talk.coordinator().NextCheck());
}

TEST(AFarewellComesAfterWhatIsReady) {
  Conversation talk(2);
  talk.Announce(0, Named("a"));
  talk.Announce(1, Named("a"));
  talk.coordinator().Receive(1, {0, Farewell{}}, kStart);
  const std::vector<Decision> decisions = talk.Decisions();
  CHECK_EQ(decisions.size(), size_t{2});
  CHECK_EQ(std::get<Departure>(decisions[1]).rank, 1);
}

}  // namespace
}  // namespace tf_collectives
