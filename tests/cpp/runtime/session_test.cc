#include "runtime/session.h"

#include <unistd.h>

#include <future>
#include <random>

#include "testing.h"
#include "text.h"

namespace tf_collectives {
namespace {

using testing::RunRanks;

Environment RankEnvironment(int rank, int size, const char* job) {
  Environment environment;
  environment.topology = {rank, size, rank, size, 0, 1};
  environment.job_id = Concat(job, "-", getpid());
  environment.chunk_bytes = 4096;
  environment.start_timeout_seconds = 30;
  return environment;
}

/// One rank of a job whose ranks are threads.
class Rank {
 public:
  explicit Rank(const Environment& environment, int generation = 0) : state_(std::make_shared<SharedState>()) {
    state_->fusion_threshold = environment.fusion_threshold;
    status = Session::Create(environment, generation, state_, &session_);
  }
  ~Rank() {
    if (session_ != nullptr) session_->Leave();
  }

  std::future<Status> AllReduce(const std::string& name, std::vector<float>* values, int64_t step = 1) {
    auto operation = std::make_shared<Operation>();
    operation->request.name = name;
    operation->request.tensors = {{DataType::kFloat32, {static_cast<int64_t>(values->size())}}};
    operation->step_id = step;
    operation->inputs = {values->data()};
    operation->outputs = {values->data()};
    auto promise = std::make_shared<std::promise<Status>>();
    operation->done = [promise](const Status& result) { promise->set_value(result); };
    session_->participant().Submit(operation);
    return promise->get_future();
  }
  Session& session() { return *session_; }

  Status status;

 private:
  std::shared_ptr<SharedState> state_;
  std::unique_ptr<Session> session_;
};

TEST(OneRankAloneNeedsNobody) {
  Rank rank(Environment{});
  CHECK_OK(rank.status);
  std::vector<float> values = {1, 2};
  CHECK_OK(rank.AllReduce("a", &values).get());
  CHECK_EQ(values, (std::vector<float>{1, 2}));
}

TEST(ThousandOperationsInAnyOrder) {
  constexpr int kSize = 3, kOperations = 1000;
  RunRanks(kSize, [](int number) {
    Rank rank(RankEnvironment(number, kSize, "thousand"));
    CHECK_OK(rank.status);
    std::vector<int> order(kOperations);
    for (int i = 0; i < kOperations; ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), std::mt19937(number));
    for (int round = 0; round < 2; ++round) {
      std::vector<std::vector<float>> values(kOperations);
      std::vector<std::future<Status>> results(kOperations);
      for (int i : order) {
        values[i].assign(i % 50, static_cast<float>(i + number));
        results[i] = rank.AllReduce(Concat("op", i), &values[i], round);
      }
      for (int i = 0; i < kOperations; ++i) {
        CHECK_OK(results[i].get());
        CHECK_EQ(values[i], std::vector<float>(i % 50, static_cast<float>(3 * i + 3)));
      }
    }
  });
}

TEST(AMismatchFailsEveryRankOnceAndThenAllIsWell) {
  constexpr int kSize = 3;
  RunRanks(kSize, [](int number) {
    Rank rank(RankEnvironment(number, kSize, "mismatch"));
    CHECK_OK(rank.status);
    std::vector<float> good(3, 1.0f), bad(number == 1 ? 5 : 4);
    std::future<Status> other = rank.AllReduce("never complete " + std::to_string(number), &good, 1);
    const Status status = rank.AllReduce("bad", &bad, 1).get();
    CHECK_EQ(status.code(), StatusCode::kInvalidArgument);
    CHECK_CONTAINS(status.message(), "rank 1: AllReduce [5] float32 sum");
    CHECK_EQ(other.get().message(), status.message());
    // The failed step stays failed, and the next one is right.
    CHECK_EQ(rank.AllReduce("late", &good, 1).get().message(), status.message());
    CHECK_OK(rank.AllReduce("good", &good, 2).get());
    CHECK_EQ(good, std::vector<float>(3, 3.0f));
  });
}

TEST(ARankThatComesLateMeetsTheFailureOnce) {
  constexpr int kSize = 2;
  std::promise<void> failed;
  std::shared_future<void> after_failure = failed.get_future().share();
  RunRanks(kSize, [&](int number) {
    Rank rank(RankEnvironment(number, kSize, "late"));
    CHECK_OK(rank.status);
    std::vector<float> values(3, 1.0f);
    if (number == 0) {
      std::future<Status> waiting = rank.AllReduce("a", &values, 1);
      rank.session().participant().ReportFailure(1, {StatusCode::kCancelled, "something broke"});
      CHECK_EQ(waiting.get().message(), "something broke");
      failed.set_value();
    } else {
      after_failure.wait();
      CHECK_EQ(rank.AllReduce("a", &values, 1).get().message(), "something broke");
    }
    CHECK_OK(rank.AllReduce("a", &values, 2).get());
    CHECK_EQ(values, std::vector<float>(3, 2.0f));
  });
}

TEST(ARankThatComesLateMeetsEveryFailure) {
  constexpr int kSize = 2;
  std::promise<void> failed;
  std::shared_future<void> after_failures = failed.get_future().share();
  RunRanks(kSize, [&](int number) {
    Rank rank(RankEnvironment(number, kSize, "every"));
    CHECK_OK(rank.status);
    std::vector<float> values(3, 1.0f);
    if (number == 1) after_failures.wait();
    for (int step = 0; step < 3; ++step) {
      const std::string text = "failure " + std::to_string(step);
      std::future<Status> waiting = rank.AllReduce("a", &values, step);
      if (number == 0) rank.session().participant().ReportFailure(step, {StatusCode::kCancelled, text});
      CHECK_EQ(waiting.get().message(), text);
    }
    if (number == 0) failed.set_value();
    CHECK_OK(rank.AllReduce("a", &values, 3).get());
    CHECK_EQ(values, std::vector<float>(3, 2.0f));
  });
}

TEST(ATimeoutNamesWhoIsMissing) {
  constexpr int kSize = 2;
  std::promise<void> timed_out;
  std::shared_future<void> after_timeout = timed_out.get_future().share();
  RunRanks(kSize, [&](int number) {
    Environment environment = RankEnvironment(number, kSize, "timeout");
    environment.timeout_seconds = 0.2;
    Rank rank(environment);
    CHECK_OK(rank.status);
    if (number == 1) {
      std::vector<float> values(3);
      const Status status = rank.AllReduce("a", &values).get();
      CHECK_EQ(status.code(), StatusCode::kDeadlineExceeded);
      CHECK_CONTAINS(status.message(), "of rank 1 waits for rank 0");
      timed_out.set_value();
    }
    after_timeout.wait();
  });
}

TEST(ARankThatLeavesFailsTheOthersForGood) {
  constexpr int kSize = 2;
  RunRanks(kSize, [](int number) {
    auto rank = std::make_unique<Rank>(RankEnvironment(number, kSize, "leave"));
    CHECK_OK(rank->status);
    if (number == 1) return;
    for (int step = 0; step < 2; ++step) {
      std::vector<float> values(3);
      const Status status = rank->AllReduce("a", &values, step).get();
      CHECK_EQ(status.code(), StatusCode::kUnavailable);
      CHECK_CONTAINS(status.message(), "rank 1 has left the job");
    }
  });
}

TEST(ALostRankIsNamed) {
  constexpr int kSize = 3;
  RunRanks(kSize, [](int number) {
    std::unique_ptr<Session> session;
    CHECK_OK(Session::Create(RankEnvironment(number, kSize, "lost"), 0, std::make_shared<SharedState>(), &session));
    // Rank 2 ends like a crash: its socket closes without a farewell.
    if (number == 2) return;
    std::vector<float> values(3);
    auto operation = std::make_shared<Operation>();
    operation->request.name = "a";
    operation->request.tensors = {{DataType::kFloat32, {3}}};
    operation->inputs = {values.data()};
    operation->outputs = {values.data()};
    std::promise<Status> result;
    operation->done = [&](const Status& status) { result.set_value(status); };
    session->participant().Submit(operation);
    const Status status = result.get_future().get();
    CHECK_EQ(status.code(), StatusCode::kUnavailable);
    CHECK_CONTAINS(status.message(), "rank 2 (process ");
    session->Leave();
  });
}

TEST(AMissingRankIsNamedAtStart) {
  Environment environment = RankEnvironment(0, 3, "missing");
  environment.start_timeout_seconds = 0.1;
  const Rank rank(environment);
  CHECK_EQ(rank.status.code(), StatusCode::kDeadlineExceeded);
  CHECK_CONTAINS(rank.status.message(), "ranks 1, 2 of 3 did not call init()");
}

TEST(TwoJobsSizesAreRefusedOnBothSides) {
  RunRanks(2, [](int number) {
    Environment environment = RankEnvironment(number, number == 0 ? 2 : 3, "sizes");
    const Rank rank(environment);
    CHECK_EQ(rank.status.code(), StatusCode::kFailedPrecondition);
    CHECK_CONTAINS(rank.status.message(), "rank 0 expects 2 ranks, but a process came as rank 1 of 3");
  });
}

TEST(RanksCanMeetAgain) {
  RunRanks(2, [](int number) {
    for (int generation = 0; generation < 3; ++generation) {
      Rank rank(RankEnvironment(number, 2, "again"), generation);
      CHECK_OK(rank.status);
      std::vector<float> values(3, 1.0f);
      CHECK_OK(rank.AllReduce("a", &values).get());
      CHECK_EQ(values, std::vector<float>(3, 2.0f));
    }
  });
}

TEST(MessagesLargerThanTheRingArrive) {
  RunRanks(2, [](int number) {
    Rank rank(RankEnvironment(number, 2, "large"));
    CHECK_OK(rank.status);
    std::vector<std::vector<float>> values(40, std::vector<float>(1, 1.0f));
    std::vector<std::future<Status>> results;
    for (size_t i = 0; i < values.size(); ++i) {
      results.push_back(rank.AllReduce(std::to_string(i) + std::string(50000, 'x'), &values[i]));
    }
    for (std::future<Status>& result : results) CHECK_OK(result.get());
    CHECK_EQ(values.back()[0], 2.0f);
  });
}

}  // namespace
}  // namespace tf_collectives
