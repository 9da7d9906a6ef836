#include "nccl/group.h"

#include <algorithm>
#include <random>
#include <utility>

#include "common/call_log.h"
#include "driver/private_api.h"
#include "nccl/collectives.h"
#include "nccl/last_error.h"
#include "nccl/point_to_point.h"

namespace cuda_standin {
namespace {

struct Start {
  std::shared_ptr<Communicator> communicator;
  std::function<void()> run;
};

struct Group {
  int depth = 0;
  ncclResult_t error = ncclSuccess;
  std::vector<Submission> submissions;
  std::vector<Start> starts;
};

thread_local Group group;

void WaitForAbort(const Communicator& communicator) {
  while (!communicator.is_aborted()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

void MeetFault(Communicator& communicator, const Fault& fault) {
  if (fault.action == Fault::Action::kDelay) std::this_thread::sleep_for(std::chrono::milliseconds(fault.number));
  if (fault.action == Fault::Action::kAsyncError)
    communicator.Break(ncclRemoteError, "an asynchronous error that a test asked for");
  if (fault.action == Fault::Action::kAsyncError || fault.action == Fault::Action::kHang) WaitForAbort(communicator);
}

void LaunchCollective(const Submission& submission) {
  Communicator& communicator = *submission.communicator;
  const Signature signature = communicator.Launch(submission.operation);
  PushTask(submission.stream, [submission, signature] {
    Communicator& running = *submission.communicator;
    running.RunInTurn(signature, [&]() -> MeetingPlace::Reason {
      MeetFault(running, submission.fault);
      if (running.is_aborted()) return {};
      return RunCollective(running, submission.operation, signature);
    });
  });
}

/// The sends and receives of a group on one communicator, where the streams of all of them meet.
class Rendezvous {
 public:
  explicit Rendezvous(size_t streams) : missing_(streams) {}
  /// Returns true in the thread that has to run them, once the streams have come so far.
  bool Arrive(bool is_first) {
    std::unique_lock<std::mutex> lock(mutex_);
    --missing_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return is_first ? missing_ == 0 : is_over_; });
    return is_first;
  }
  void End() {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_over_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t missing_;
  bool is_over_ = false;
};

void LaunchPointToPoint(const std::vector<Submission>& submissions) {
  const std::shared_ptr<Communicator> communicator = submissions[0].communicator;
  std::vector<CUstream> streams;
  std::vector<Operation> operations;
  Fault fault;
  for (const Submission& submission : submissions) {
    if (std::find(streams.begin(), streams.end(), submission.stream) == streams.end())
      streams.push_back(submission.stream);
    operations.push_back(submission.operation);
    if (submission.fault.action != Fault::Action::kNone) fault = submission.fault;
  }
  const Signature signature = communicator->Launch(operations[0]);
  const auto rendezvous = std::make_shared<Rendezvous>(streams.size());
  for (const CUstream stream : streams)
    PushTask(stream, [=] {
      if (!rendezvous->Arrive(stream == streams[0])) return;
      communicator->RunInTurn(signature, [&]() -> MeetingPlace::Reason {
        MeetFault(*communicator, fault);
        if (communicator->is_aborted()) return {};
        return RunPointToPoint(*communicator, operations);
      });
      rendezvous->End();
    });
}

// Per communicator: the collectives in the order of their calls, then all sends and receives together, which get on
// without one another as in NCCL's single kernel.
void Launch(const std::vector<Submission>& submissions) {
  std::vector<std::shared_ptr<Communicator>> communicators;
  for (const Submission& submission : submissions)
    if (std::find(communicators.begin(), communicators.end(), submission.communicator) == communicators.end())
      communicators.push_back(submission.communicator);
  for (const auto& communicator : communicators) {
    std::vector<Submission> point_to_point;
    for (const Submission& submission : submissions) {
      if (submission.communicator != communicator) continue;
      if (IsPointToPoint(submission.operation.kind))
        point_to_point.push_back(submission);
      else
        LaunchCollective(submission);
    }
    if (!point_to_point.empty()) LaunchPointToPoint(point_to_point);
  }
}

// A communicator that doesn't block may launch after the call has returned ncclInProgress. Who records an event before
// it has reached ncclSuccess records it too early.
ncclResult_t LaunchNowOrSoon(std::vector<Submission> submissions) {
  if (submissions.empty()) return ncclSuccess;
  Communicator& first = *submissions[0].communicator;
  const int longest = GetSettings().nccl_launch_delay_milliseconds;
  if (first.config.blocking || longest == 0) {
    Launch(submissions);
    return ncclSuccess;
  }
  first.RunInBackground([&first, longest, submissions = std::move(submissions)] {
    std::this_thread::sleep_for(std::chrono::milliseconds(std::random_device{}() % static_cast<unsigned>(longest)));
    Launch(submissions);
    first.EndBackground();
  });
  return ncclInProgress;
}

ncclResult_t RunStarts(std::vector<Start> starts) {
  ncclResult_t result = ncclSuccess;
  for (Start& start : starts) start.communicator->RunInBackground(std::move(start.run));
  for (const Start& start : starts) {
    if (!start.communicator->config.blocking) {
      result = ncclInProgress;
      continue;
    }
    start.communicator->JoinBackground();
    if (start.communicator->state() != ncclSuccess) result = start.communicator->state();
  }
  return result;
}

}  // namespace

void StartGroup() { ++group.depth; }

ncclResult_t EndGroup() {
  if (group.depth == 0) return Fail(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  if (--group.depth > 0) return ncclSuccess;
  Group ended = std::exchange(group, Group{});
  if (ended.error != ncclSuccess) return ended.error;
  if (!ended.starts.empty() && !ended.submissions.empty())
    return Fail(ncclInvalidUsage, "a group makes communicators or runs operations, not both");
  if (!ended.starts.empty()) return RunStarts(std::move(ended.starts));
  return LaunchNowOrSoon(std::move(ended.submissions));
}

ncclResult_t Submit(Submission submission) {
  if (group.depth == 0) return LaunchNowOrSoon({std::move(submission)});
  group.submissions.push_back(std::move(submission));
  return ncclSuccess;
}

ncclResult_t NoteErrorInGroup(ncclResult_t error) {
  if (group.depth > 0 && group.error == ncclSuccess) group.error = error;
  return error;
}

ncclResult_t SubmitStart(std::shared_ptr<Communicator> communicator, std::function<void()> start) {
  const bool blocking = communicator->config.blocking;
  std::vector<Start> starts{{std::move(communicator), std::move(start)}};
  if (group.depth == 0) return RunStarts(std::move(starts));
  group.starts.push_back(std::move(starts[0]));
  return blocking ? ncclSuccess : ncclInProgress;
}

}  // namespace cuda_standin
