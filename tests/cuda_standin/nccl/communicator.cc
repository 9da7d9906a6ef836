#include "nccl/communicator.h"

#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <utility>

#include "common/call_log.h"
#include "driver/private_api.h"
#include "nccl/last_error.h"
#include "nccl/launch_order.h"

namespace cuda_standin {
namespace {

bool MayShareDevices() {
  const char* value = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  return value != nullptr && std::strcmp(value, "1") == 0;
}

void PauseBeforeJoining() {
  const int longest = GetSettings().nccl_init_delay_milliseconds;
  if (longest == 0) return;
  std::this_thread::sleep_for(std::chrono::milliseconds(std::random_device{}() % static_cast<unsigned>(longest)));
}

}  // namespace

Communicator::Communicator(int rank_, int size_, int device_, Config config_)
    : rank(rank_), size(size_), device(device_), config(std::move(config_)) {}

Communicator::~Communicator() {
  JoinBackground();
  if (id_ != 0) ForgetCommunicator(device, id_);
}

void Communicator::Join(const std::string& path) {
  PauseBeforeJoining();
  path_ = path;
  MeetingPlace::Reason reason;
  place_ = MeetingPlace::Join(path, rank, size, PhysicalDevice(device), Interruption(), &reason);
  if (place_ == nullptr) return Break(ncclSystemError, reason);
  const int other = place_->RankOnSameDevice();
  if (other >= 0 && !MayShareDevices())
    return Break(ncclInvalidUsage, "Duplicate GPU detected : rank " + std::to_string(rank) + " and rank " +
                                       std::to_string(other) + " both on CUDA device " + PciBusIdOf(device));
  id_ = std::hash<std::string>()(path);
  NoteCommunicator(device, id_);
  EndBackground();
}

ncclResult_t Communicator::EnsureReady() const {
  const ncclResult_t state = state_;
  if (state == ncclInProgress)
    return Fail(ncclInvalidArgument, "Attempt to use communicator before the previous operation returned ncclSuccess");
  return state;
}

void Communicator::Break(ncclResult_t error, const std::string& text) {
  Fail(error, "rank " + std::to_string(rank) + " of " + std::to_string(size) + ": " + text);
  LogCall("communicator broken", FieldsForLog("comm_rank", rank, "error", error, "text", text));
  ncclResult_t before = ncclInProgress;
  if (state_.compare_exchange_strong(before, error)) return;
  before = ncclSuccess;
  state_.compare_exchange_strong(before, error);
}

void Communicator::RunInBackground(std::function<void()> work) {
  JoinBackground();
  ncclResult_t before = ncclSuccess;
  state_.compare_exchange_strong(before, ncclInProgress);
  background_ = std::thread([this, work = std::move(work)] {
    MakeDeviceCurrent(device);
    work();
  });
}

void Communicator::JoinBackground() {
  if (background_.joinable()) background_.join();
}

void Communicator::EndBackground() {
  ncclResult_t before = ncclInProgress;
  state_.compare_exchange_strong(before, ncclSuccess);
}

Signature Communicator::Launch(const Operation& operation) {
  Signature signature;
  signature.kind = operation.kind;
  signature.dtype = operation.dtype;
  signature.op = std::min<int>(operation.reduction.op, kFirstCustomReduction);
  signature.root = operation.peer;
  signature.count = operation.count;
  NoteLaunch(device, id_, &signature);
  const std::lock_guard<std::mutex> lock(mutex_);
  signature.sequence = launched_++;
  return signature;
}

void Communicator::RunInTurn(const Signature& signature, const std::function<MeetingPlace::Reason()>& run) {
  {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return finished_ == signature.sequence || aborted_; });
    if (aborted_) return;
    is_running_ = true;
  }
  const bool is_broken = state_ != ncclSuccess && state_ != ncclInProgress;
  const MeetingPlace::Reason reason = is_broken ? MeetingPlace::Reason() : run();
  if (!reason.empty() && !aborted_) Break(ncclRemoteError, reason);
  const std::lock_guard<std::mutex> lock(mutex_);
  is_running_ = false;
  ++finished_;
  changed_.notify_all();
}

void Communicator::Drain() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return finished_ == launched_ || aborted_; });
}

void Communicator::Abort() {
  aborted_ = true;
  JoinBackground();
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.notify_all();
  changed_.wait(lock, [this] { return !is_running_; });
}

MeetingPlace::Interruption Communicator::Interruption() const {
  return [this] { return aborted_.load(); };
}

MeetingPlace::Reason Communicator::Barrier() { return place_->Barrier(Interruption()); }

MeetingPlace::Reason Communicator::Agree(const Signature& signature, const std::function<void()>& read) {
  place_->signature(rank) = signature;
  if (MeetingPlace::Reason reason = Barrier(); !reason.empty()) return reason;
  for (int other = 0; other < size; ++other) {
    const Signature& theirs = place_->signature(other);
    MeetingPlace::Reason reason;
    if (!signature.Agrees(theirs))
      reason = "ranks call different collectives: on rank " + std::to_string(rank) + " " + signature.ToString() +
               ", on rank " + std::to_string(other) + " " + theirs.ToString();
    else
      reason = CompareLaunchOrder(signature, theirs, other);
    if (reason.empty()) continue;
    place_->Report(reason);
    return place_->Reported();
  }
  if (read) read();
  return Barrier();
}

ncclRedOp_t Communicator::AddReduction(double scalar, ncclDataType_t dtype) {
  const std::lock_guard<std::mutex> lock(mutex_);
  reductions_[next_reduction_] = {scalar, dtype};
  return static_cast<ncclRedOp_t>(next_reduction_++);
}

bool Communicator::RemoveReduction(ncclRedOp_t op) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return reductions_.erase(op) == 1;
}

bool Communicator::FindReduction(ncclRedOp_t op, ncclDataType_t dtype, Reduction* reduction) const {
  if (op >= 0 && op < kFirstCustomReduction) {
    *reduction = {op, 1.0};
    return true;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = reductions_.find(op);
  if (found == reductions_.end() || found->second.dtype != dtype) return false;
  *reduction = {static_cast<ncclRedOp_t>(kFirstCustomReduction), found->second.scalar};
  return true;
}

}  // namespace cuda_standin
