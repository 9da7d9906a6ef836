#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "negotiation/carrier.h"
#include "negotiation/message.h"
#include "tf_collectives/operation.h"

namespace tf_collectives {

/// Which failure epoch a step belongs to. A step keeps the epoch in which it submitted its first collective, so that
/// what it submits after a failure is recognised as part of what failed.
class StepLedger {
 public:
  uint32_t EpochOf(int64_t step_id, uint32_t current_epoch);

 private:
  static constexpr size_t kCapacity = 1024;
  std::unordered_map<int64_t, uint32_t> epochs_;
  std::deque<int64_t> order_;
};

/// An operation of this rank that all ranks have submitted.
struct StartedOperation {
  OperationPointer operation;
  GatherSizes sizes;
};

/// The side of the negotiation that every rank has: announces what is submitted, and turns the coordinator's decisions
/// into operations to run or to fail.
///
/// Failure epochs. A failure anywhere (mismatch, cancelled step, deadline, ...) becomes epoch E + 1 for all ranks. A
/// rank meets it each epoch exactly once: everything it has in flight fails with the common status, or, if nothing is
/// in flight, the next thing that it submits. From then on its new steps belong to epoch E + 1; steps from before stay
/// failed.
class Participant {
 public:
  Participant(Carrier* carrier, int rank) : carrier_(carrier), rank_(rank) {}

  void Submit(const OperationPointer& operation);
  void ReportFailure(int64_t step_id, const Status& status);
  /// Begins a failure if anything waits here.
  void FailWaiting(const Status& status);
  /// Nothing runs any more: fails what waits and all that is submitted later. The first status stays.
  void Close(const Status& status);
  /// Closes if nothing waits, and returns whether it did.
  bool CloseIfIdle(const Status& status);
  /// Tells the coordinator that this rank is leaving.
  void SayFarewell();
  bool HasWaiting();
  /// Since when operations have waited without a word from the coordinator; nothing if none waits.
  Deadline SilentSince();

  // Called with the coordinator's decisions, in their order.
  Status Start(const Execution& execution, std::vector<StartedOperation>* started);
  void Apply(const Failure& failure);
  void Apply(const Departure& departure);

  int64_t cache_hits() const { return cache_hits_; }
  int64_t cache_misses() const { return cache_misses_; }
  void ResetStatistics() { cache_hits_ = cache_misses_ = 0; }

 private:
  struct Waiting {
    OperationPointer operation;
    uint32_t epoch = 0;
    std::string encoded;
  };
  struct Remembered {
    std::string name;
    std::string encoded;
    GatherSizes sizes;
  };

  /// Returns the error that the operation meets at once, or OK.
  Status Admit(const Operation& operation, uint32_t* epoch);
  void Announce(uint32_t epoch, std::string encoded);
  void Originate(uint32_t epoch, const Status& status);
  Status MeetNext();
  void Remember(const ScheduledRequest& scheduled, const std::string& encoded);
  void Forget(uint32_t cache_id);
  void HeardFromCoordinator();
  std::vector<OperationPointer> TakeWaiting(uint32_t before_epoch);

  Carrier* const carrier_;
  const int rank_;
  std::mutex mutex_;
  std::unordered_map<std::string, std::deque<Waiting>> waiting_;
  size_t waiting_count_ = 0;
  Clock::time_point last_word_;
  StepLedger ledger_;
  /// The epoch that this rank has met last and why it began, and those that it has heard of and not met yet.
  uint32_t epoch_ = 0;
  Status last_failure_;
  std::deque<Failure> unmet_;
  Status closed_;
  uint64_t decisions_seen_ = 0;

  std::unordered_map<std::string, uint32_t> cache_ids_;
  std::unordered_map<uint32_t, Remembered> remembered_;
  std::atomic<int64_t> cache_hits_{0};
  std::atomic<int64_t> cache_misses_{0};
};

}  // namespace tf_collectives
