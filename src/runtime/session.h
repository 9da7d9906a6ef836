#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "bootstrap/rendezvous.h"
#include "communicators/communicator.h"
#include "negotiation/coordinator.h"
#include "negotiation/participant.h"
#include "negotiation/shm_carrier.h"
#include "runtime/device_link.h"
#include "runtime/watcher.h"
#include "tf_collectives/environment.h"
#include "tf_collectives/fusion.h"

namespace tf_collectives {

/// What outlives a session: settings that may change while it runs, and counters.
struct SharedState {
  std::atomic<int64_t> fusion_threshold{0};
  std::string nccl_library;
  std::atomic<int64_t> tensors{0};
  std::atomic<int64_t> batches{0};
  std::atomic<int64_t> bytes{0};
};

/// One membership of this process in a job, from init() to shutdown(): the connections and the thread that negotiates
/// and runs collectives. Nothing in it is global, so tests run several in one process.
class Session {
 public:
  static Status Create(const Environment& environment, int generation, std::shared_ptr<SharedState> state,
                       std::unique_ptr<Session>* session);
  ~Session();

  Participant& participant() { return *participant_; }
  DeviceLink& gpu() { return gpu_; }
  const Topology& topology() const { return environment_.topology; }
  const Environment& environment() const { return environment_; }

  /// Ends what is in flight, says farewell and stops the thread. Called once; without it the destructor leaves like a
  /// crash.
  void Leave();
  void CloseDescriptorsAfterFork();

 private:
  Session(const Environment& environment, Meeting meeting, std::shared_ptr<SharedState> state);

  void Loop();
  /// Does what there is to do and returns whether there was anything.
  bool Step();
  bool Coordinate();
  /// Looks for news for a moment, if something waits: cheaper for all than being woken for each of many submissions.
  bool SpinForEvent(uint32_t events);
  /// Sends the decisions to the other ranks, and returns when the ways have taken them whole.
  void Announce(const std::vector<Decision>& decisions);
  void CarryOut(const Decision& decision);
  void Execute(const Execution& execution);
  /// Called on the backend's thread when a batch on a GPU is done.
  void GpuBatchDone(const Status& status);
  /// Nothing can run any more.
  void Break(const Status& status);
  /// Whether a rank is lost; if so, everything fails.
  bool CheckLost();
  void CheckSilence();
  Deadline NextDeadline();
  Status LostError() const;
  void WaitForIdle(Clock::time_point deadline);
  void Stop(Clock::time_point deadline);

  const Environment environment_;
  const std::shared_ptr<SharedState> state_;
  const std::chrono::microseconds spin_;
  Meeting meeting_;
  Board board_;
  std::unique_ptr<Carrier> carrier_;
  std::unique_ptr<Participant> participant_;
  std::unique_ptr<Coordinator> coordinator_;  // rank 0 only
  std::unique_ptr<Communicator> communicator_;
  DeviceLink gpu_;
  std::unique_ptr<Watcher> watcher_;

  std::atomic<bool> stop_{false};
  /// Until when the stopping thread tries to send what is left. Set before `stop_`.
  Clock::time_point stop_deadline_;
  std::mutex idle_mutex_;
  std::condition_variable idle_;
  std::thread thread_;
};

}  // namespace tf_collectives
