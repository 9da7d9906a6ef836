#pragma once

#include <nccl.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "nccl/meeting_place.h"
#include "nccl/operation.h"

namespace cuda_standin {

/// What ncclConfig_t asked for and the stand-in heeds.
struct Config {
  bool blocking = true;
  std::string name;
};

class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  Communicator(int rank, int size, int device, Config config);
  ~Communicator();

  /// Both are -1 in a communicator that ncclCommSplit is still making.
  int rank;
  int size;
  const int device;
  const Config config;

  /// Joins the other ranks at this path; the state changes from ncclInProgress when it is over.
  void Join(const std::string& path);
  /// ncclInProgress, ncclSuccess, or the error that ended its use.
  ncclResult_t state() const { return state_; }
  /// Refuses what comes before an asynchronous call has ended, or after an error.
  ncclResult_t EnsureReady() const;
  /// From now on an error; the first one counts.
  void Break(ncclResult_t error, const std::string& text);

  /// Does something in a thread of the communicator's, in the state ncclInProgress.
  void RunInBackground(std::function<void()> work);
  void JoinBackground();
  /// Called at the end of such work: the state is ncclSuccess unless it broke.
  void EndBackground();

  /// Takes the next place in the order of operations, and notes what all ranks have to agree on.
  Signature Launch(const Operation& operation);
  /// Runs an operation that was launched, in its turn. After an abort or an error only the turn passes.
  void RunInTurn(const Signature& signature, const std::function<MeetingPlace::Reason()>& run);
  /// Waits until all that was launched has run; not after an abort.
  void Drain();
  /// Makes all waits end, and waits for operations that are running.
  void Abort();
  bool is_aborted() const { return aborted_; }
  /// Compares the signatures of all ranks. `read` may look at them.
  MeetingPlace::Reason Agree(const Signature& signature, const std::function<void()>& read = nullptr);
  MeetingPlace::Reason Barrier();
  MeetingPlace::Interruption Interruption() const;

  MeetingPlace& place() { return *place_; }
  const std::string& path() const { return path_; }

  ncclRedOp_t AddReduction(double scalar, ncclDataType_t dtype);
  bool RemoveReduction(ncclRedOp_t op);
  /// Returns false for what isn't a reduction of this communicator and type.
  bool FindReduction(ncclRedOp_t op, ncclDataType_t dtype, Reduction* reduction) const;

  bool is_finalized = false;

 private:
  struct Custom {
    double scalar;
    ncclDataType_t dtype;
  };

  std::string path_;
  uint64_t id_ = 0;
  std::unique_ptr<MeetingPlace> place_;
  std::atomic<ncclResult_t> state_{ncclInProgress};
  std::atomic<bool> aborted_{false};
  std::thread background_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t launched_ = 0;
  uint64_t finished_ = 0;
  bool is_running_ = false;
  std::map<int, Custom> reductions_;
  int next_reduction_ = kFirstCustomReduction;
};

/// Null for what isn't, or no longer, a communicator.
std::shared_ptr<Communicator> FindCommunicator(ncclComm_t handle);
ncclComm_t AddCommunicator(std::shared_ptr<Communicator> communicator);
void RemoveCommunicator(ncclComm_t handle);

}  // namespace cuda_standin
