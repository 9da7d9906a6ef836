#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "negotiation/message.h"
#include "shared_memory/futex.h"

namespace tf_collectives {

/// Decides, on rank 0, what all ranks run and in which order. Knows nothing of threads and carriers: messages go in,
/// decisions come out.
///
/// Requests match by name: the k-th of a name on one rank with the k-th on every other. A failure of any kind starts a
/// new epoch: what was announced in earlier epochs is forgotten, and what still arrives from them is dropped, because
/// every rank fails it by itself when it learns of the new epoch.
class Coordinator {
 public:
  struct Options {
    int size = 1;
    int64_t cache_capacity = 1024;
    Clock::duration stall_warning{};  // zero: never
    Clock::duration timeout{};        // zero: never
  };

  explicit Coordinator(const Options& options) : options_(options), decisions_seen_(options.size, 0) {}

  void Receive(int rank, const RankMessage& message, Clock::time_point now);
  /// Reports stalls and ends what has waited too long. Returns the texts of new warnings.
  std::vector<std::string> CheckWaiting(Clock::time_point now);
  /// When CheckWaiting should be called next, if ever. May be too early, never too late.
  Deadline NextCheck() const;

  void SetFusionThreshold(int64_t bytes) { fusion_threshold_ = bytes; }
  /// While set, what is ready on GPUs is kept back, so that it is fused with what becomes ready meanwhile.
  void SetGpuBusy(bool busy) { gpu_busy_ = busy; }
  /// What was decided since the last call, to be sent to every rank in this order.
  std::vector<Decision> TakeDecisions();

 private:
  using RequestPointer = std::shared_ptr<const Request>;

  /// The k-th use of a name, as far as ranks have announced it.
  struct Round {
    std::vector<RequestPointer> requests;
    std::vector<uint32_t> cache_ids;
    int arrived = 0;
    Clock::time_point since;
    bool warned = false;
  };
  struct NameQueue {
    std::deque<Round> rounds;
    /// How many of the rounds each rank has entered.
    std::vector<size_t> entered;
  };
  struct CacheEntry {
    std::vector<RequestPointer> requests;
    std::list<uint32_t>::iterator use;
  };

  void Announced(int rank, const Announcement& announcement, Clock::time_point now);
  void Fail(uint32_t epoch, const Status& status);
  void Schedule(const std::string& name, Round&& round);
  void CloseExecution(bool with_gpu);
  RequestPointer Expand(int rank, const Announcement& announcement) const;
  uint32_t Remember(const Round& round);
  void ForgetRetired();
  Clock::time_point NextCheckOf(const Round& round) const;
  Status TimeoutError(const Round& round) const;
  std::string WaitingText(const Round& round) const;

  const Options options_;
  uint32_t epoch_ = 0;
  std::unordered_map<std::string, NameQueue> queues_;
  int64_t waiting_rounds_ = 0;
  Clock::time_point next_check_ = Clock::time_point::max();
  int64_t fusion_threshold_ = 0;
  std::vector<ScheduledRequest> ready_;
  std::vector<ScheduledRequest> ready_on_gpu_;
  bool gpu_busy_ = false;
  std::vector<uint32_t> evicted_;
  std::vector<Decision> decided_;

  /// Ids are never used twice. An evicted entry is kept until all ranks have seen the eviction, because an announcement
  /// that names it may be under way.
  std::unordered_map<uint32_t, CacheEntry> cache_;
  std::list<uint32_t> least_recently_used_;
  std::deque<std::pair<uint64_t, uint32_t>> retired_;
  uint32_t next_cache_id_ = 1;
  uint64_t decisions_made_ = 0;
  std::vector<uint64_t> decisions_seen_;
};

}  // namespace tf_collectives
