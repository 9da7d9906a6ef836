#include "runtime/session.h"

#include <sched.h>
#include <unistd.h>

#include <cmath>

#include "communicators/local_communicator.h"
#include "communicators/shm/shm_communicator.h"
#include "runtime/execution.h"
#include "runtime/log.h"
#include "text.h"

namespace tf_collectives {
namespace {

// One that runs and one that follows it without a gap; what becomes ready meanwhile is fused into the next.
constexpr int kGpuBatchesInFlight = 2;
constexpr auto kLeaveLimit = std::chrono::seconds(10);
// How much longer than its own deadline the coordinator may take to tell of it.
constexpr auto kCoordinatorGrace = std::chrono::seconds(5);

Clock::duration FromSeconds(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

/// With more ranks than cores, whoever looks for news keeps another rank from making them.
std::chrono::microseconds SpinFor(const Environment& environment) {
  const bool crowded = static_cast<unsigned>(environment.topology.local_size) > std::thread::hardware_concurrency();
  return std::chrono::microseconds(crowded ? 0 : environment.spin_microseconds);
}

/// The meeting of a job of one.
Status MeetAlone(Meeting* meeting) {
  meeting->layout = {1, 1, 0, 4096};
  FileDescriptor descriptor;
  TFC_RETURN_IF_ERROR(Segment::Create(meeting->layout.TotalBytes(), &meeting->segment, &descriptor));
  Board(meeting->segment.data(), meeting->layout).Format();
  return Status::Ok();
}

}  // namespace

Status Session::Create(const Environment& environment, int generation, std::shared_ptr<SharedState> state,
                       std::unique_ptr<Session>* session) {
  Meeting meeting;
  TFC_RETURN_IF_ERROR(environment.topology.size == 1 ? MeetAlone(&meeting) : Meet(environment, generation, &meeting));
  session->reset(new Session(environment, std::move(meeting), std::move(state)));
  return Status::Ok();
}

Session::Session(const Environment& environment, Meeting meeting, std::shared_ptr<SharedState> state)
    : environment_(environment),
      state_(std::move(state)),
      spin_(SpinFor(environment)),
      meeting_(std::move(meeting)),
      board_(meeting_.segment.data(), meeting_.layout),
      gpu_(environment, state_->nccl_library) {
  const Topology& topology = environment_.topology;
  board_.rank(topology.rank).process_id = getpid();
  carrier_ = std::make_unique<ShmCarrier>(board_, topology.rank);
  participant_ = std::make_unique<Participant>(carrier_.get(), topology.rank);
  if (topology.rank == 0) {
    coordinator_ = std::make_unique<Coordinator>(Coordinator::Options{topology.size, environment_.cache_capacity,
                                                                      FromSeconds(environment_.stall_warning_seconds),
                                                                      FromSeconds(environment_.timeout_seconds)});
  }
  if (topology.size == 1) {
    communicator_ = std::make_unique<LocalCommunicator>();
  } else {
    communicator_ = std::make_unique<ShmCommunicator>(
        board_, topology.rank, ShmCommunicator::Options{spin_, FromSeconds(environment_.timeout_seconds)});
  }
  watcher_ = std::make_unique<Watcher>(board_, std::move(meeting_.peers));
  thread_ = std::thread([this] { Loop(); });
}

Session::~Session() { Stop(Clock::now()); }

void Session::Leave() {
  const Clock::time_point deadline = Clock::now() + kLeaveLimit;
  const Status goodbye(StatusCode::kFailedPrecondition, "tf_collectives was shut down. Call init() first.");
  // An operation may be scheduled while it is being ended, and then the peers count on this rank; so the coordinator's
  // word is awaited.
  while (!participant_->CloseIfIdle(goodbye) && Clock::now() < deadline) {
    participant_->FailWaiting({StatusCode::kCancelled, Concat("rank ", topology().rank,
                                                              " called shutdown() while collectives were in flight. "
                                                              "Let them finish first, on all ranks.")});
    WaitForIdle(deadline);
  }
  participant_->Close(goodbye);
  WaitForIdle(deadline);
  participant_->SayFarewell();
  Stop(deadline);
  gpu_.Close();
  board_.rank(topology().rank).departed = 1;
}

void Session::Stop(Clock::time_point deadline) {
  if (!thread_.joinable()) return;
  stop_deadline_ = deadline;
  stop_ = true;
  carrier_->Wake();
  thread_.join();
}

void Session::CloseDescriptorsAfterFork() { watcher_->CloseDescriptors(); }

void Session::WaitForIdle(Clock::time_point deadline) {
  std::unique_lock<std::mutex> lock(idle_mutex_);
  idle_.wait_until(lock, deadline, [this] { return !participant_->HasWaiting() && gpu_.in_flight() == 0; });
}

void Session::Loop() {
  for (;;) {
    const uint32_t events = carrier_->Events();
    const bool stopping = stop_;
    const bool progressed = Step();
    {
      // Taken so that a waiting Leave() can't miss the notification between its check and its sleep.
      std::lock_guard<std::mutex> lock(idle_mutex_);
    }
    idle_.notify_all();
    if (stopping && (!carrier_->HasUnsent() || board_.lost_rank() >= 0 || Clock::now() >= stop_deadline_)) return;
    if (!progressed && !SpinForEvent(events))
      carrier_->Wait(events, stopping ? Deadline(stop_deadline_) : NextDeadline());
  }
}

bool Session::SpinForEvent(uint32_t events) {
  if (spin_.count() == 0 || !participant_->HasWaiting()) return false;
  const Clock::time_point end = Clock::now() + spin_;
  do {
    if (carrier_->Events() != events) return true;
    // TensorFlow's threads, which may be about to submit more, need the core more than this one.
    sched_yield();
  } while (Clock::now() < end);
  return false;
}

bool Session::Step() {
  carrier_->Flush();
  if (CheckLost()) return false;
  if (coordinator_ != nullptr) return Coordinate();
  bool progressed = false;
  std::string bytes;
  while (carrier_->Receive(0, &bytes)) {
    progressed = true;
    Decision decision;
    if (DecodeDecision(bytes, &decision)) CarryOut(decision);
  }
  CheckSilence();
  return progressed;
}

bool Session::Coordinate() {
  bool progressed = false;
  std::string bytes;
  coordinator_->SetFusionThreshold(environment_.deterministic ? 0 : state_->fusion_threshold.load());
  coordinator_->SetGpuBusy(gpu_.in_flight() >= kGpuBatchesInFlight);
  for (int rank = 0; rank < board_.size(); ++rank) {
    while (carrier_->Receive(rank, &bytes)) {
      progressed = true;
      RankMessage message;
      if (DecodeMessage(bytes, &message)) coordinator_->Receive(rank, message, Clock::now());
    }
  }
  if (const Deadline next = coordinator_->NextCheck(); next && Clock::now() >= *next) {
    for (const std::string& warning : coordinator_->CheckWaiting(Clock::now())) Log(LogLevel::kWarning, warning);
  }
  const std::vector<Decision> decisions = coordinator_->TakeDecisions();
  if (!decisions.empty()) Announce(decisions);
  for (const Decision& decision : decisions) CarryOut(decision);
  return progressed || !decisions.empty();
}

void Session::Announce(const std::vector<Decision>& decisions) {
  for (const Decision& decision : decisions) {
    const std::string encoded = Encode(decision);
    for (int rank = 1; rank < board_.size(); ++rank) carrier_->Send(rank, encoded);
  }
  // This rank can't send while it runs a collective, and the others can't take part before they know of it.
  const Clock::time_point start = Clock::now();
  while (carrier_->HasUnsent() && board_.lost_rank() < 0) {
    const uint32_t events = carrier_->Events();
    carrier_->Flush();
    if (!carrier_->HasUnsent()) return;
    const Deadline deadline =
        environment_.timeout_seconds > 0 ? Deadline(start + FromSeconds(environment_.timeout_seconds)) : std::nullopt;
    if (deadline && Clock::now() >= *deadline) {
      Break({StatusCode::kDeadlineExceeded,
             Concat("a rank has not taken its messages for ", environment_.timeout_seconds,
                    " s. See whether a process is stopped or its machine is overloaded.")});
      return;
    }
    carrier_->Wait(events, deadline);
  }
}

void Session::CarryOut(const Decision& decision) {
  if (const auto* execution = std::get_if<Execution>(&decision)) {
    Execute(*execution);
  } else if (const auto* failure = std::get_if<Failure>(&decision)) {
    participant_->Apply(*failure);
  } else {
    participant_->Apply(std::get<Departure>(decision));
  }
}

void Session::Execute(const Execution& execution) {
  std::vector<StartedOperation> started;
  Status status = participant_->Start(execution, &started);
  const auto run = std::make_shared<ExecutionRun>(std::move(started), execution.fusion_threshold);
  state_->tensors += run->tensors();
  state_->batches += run->batches();
  state_->bytes += run->bytes();
  if (void* stream = run->gpu_stream(); status.ok() && stream != nullptr) {
    const Status connected = gpu_.Connect(stream, communicator_.get());
    if (!connected.ok()) run->FailGpu(connected);
  }
  if (status.ok()) {
    status = run->RunAll(communicator_.get(), gpu_.backend(), [this](const Status& done) { GpuBatchDone(done); });
  }
  if (status.ok()) return;
  if (board_.lost_rank() >= 0) status = LostError();
  run->FailRest(status);
  Break(status);
}

void Session::GpuBatchDone(const Status& status) {
  if (!status.ok() && board_.lost_rank() < 0) {
    participant_->Close(status);
    board_.ReportLost(topology().rank, LossKind::kDeviceFailed);
  }
  // The coordinator may have kept something back.
  carrier_->Wake();
}

void Session::Break(const Status& status) {
  participant_->Close(status);
  gpu_.Abort(status);
}

bool Session::CheckLost() {
  if (board_.lost_rank() < 0) return false;
  Break(LostError());
  return true;
}

Status Session::LostError() const {
  const int rank = board_.lost_rank();
  if (board_.loss_kind() == LossKind::kDeviceFailed) {
    return {StatusCode::kUnavailable, Concat("the GPU communication of rank ", rank,
                                             " has failed, so collectives can't run any more. "
                                             "See that rank's error, then start the job again.")};
  }
  return {StatusCode::kUnavailable, Concat("rank ", rank, " (process ", board_.rank(rank).process_id.load(),
                                           ") has ended without leaving the job: it crashed or was killed, perhaps for "
                                           "want of memory. Collectives can't run "
                                           "without it; see its output, then start the job again.")};
}

void Session::CheckSilence() {
  const Deadline since = participant_->SilentSince();
  if (environment_.timeout_seconds <= 0 || !since) return;
  if (Clock::now() < *since + FromSeconds(environment_.timeout_seconds) + kCoordinatorGrace) return;
  participant_->Close(
      {StatusCode::kDeadlineExceeded,
       Concat("rank 0 (process ", board_.rank(0).process_id.load(),
              "), which coordinates the others, has not answered for over ", environment_.timeout_seconds,
              " s. See whether its process is stopped or its machine is overloaded.")});
}

Deadline Session::NextDeadline() {
  if (coordinator_ != nullptr) return coordinator_->NextCheck();
  const Deadline since = participant_->SilentSince();
  if (environment_.timeout_seconds <= 0 || !since) return std::nullopt;
  return *since + FromSeconds(environment_.timeout_seconds) + kCoordinatorGrace;
}

}  // namespace tf_collectives
