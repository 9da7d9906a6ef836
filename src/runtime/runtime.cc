#include "tf_collectives/runtime.h"

#include <pthread.h>

#include <mutex>

#include "negotiation/mismatch.h"
#include "runtime/log.h"
#include "runtime/session.h"
#include "text.h"

namespace tf_collectives {
namespace {

Status NotInitialized() {
  return {StatusCode::kFailedPrecondition, "tf_collectives is not initialized. Call tf_collectives.init() first."};
}

}  // namespace

class Runtime::Implementation {
 public:
  std::shared_ptr<Session> session() const {
    std::lock_guard<std::mutex> lock(mutex);
    return current;
  }

  /// Guards `current`; never held while waiting.
  mutable std::mutex mutex;
  std::shared_ptr<Session> current;
  /// Held by Initialize and Shutdown, which wait.
  std::mutex lifecycle_mutex;
  int generation = 0;
  bool threshold_chosen = false;
  std::shared_ptr<SharedState> state = std::make_shared<SharedState>();
};

Runtime& Runtime::Get() {
  // Never destroyed: TensorFlow's threads may still call while the process exits.
  static auto* runtime = new Runtime;
  return *runtime;
}

Runtime::Runtime() : implementation_(new Implementation) {
  implementation_->state->fusion_threshold = Environment().fusion_threshold;
  // A forked child is no rank. Its copy of the session is abandoned, neither used nor destroyed, because its threads
  // exist in the parent only; the sockets are closed so that the parent's end still shows.
  pthread_atfork([] { Get().implementation_->mutex.lock(); }, [] { Get().implementation_->mutex.unlock(); },
                 [] {
                   Implementation& child = *Get().implementation_;
                   if (child.current != nullptr) {
                     child.current->CloseDescriptorsAfterFork();
                     new std::shared_ptr<Session>(std::move(child.current));
                   }
                   child.current = nullptr;
                   child.mutex.unlock();
                 });
}

Runtime::~Runtime() = default;

Status Runtime::Initialize(const Environment& environment) {
  Implementation& self = *implementation_;
  std::lock_guard<std::mutex> lifecycle(self.lifecycle_mutex);
  if (self.session() != nullptr) return Status::Ok();
  ConfigureLog(environment.log_level, environment.topology.rank);
  if (!self.threshold_chosen) self.state->fusion_threshold = environment.fusion_threshold;
  std::unique_ptr<Session> session;
  TFC_RETURN_IF_ERROR(Session::Create(environment, self.generation, self.state, &session));
  ++self.generation;
  std::lock_guard<std::mutex> lock(self.mutex);
  self.current = std::move(session);
  return Status::Ok();
}

void Runtime::Shutdown() {
  Implementation& self = *implementation_;
  std::lock_guard<std::mutex> lifecycle(self.lifecycle_mutex);
  std::shared_ptr<Session> session = self.session();
  if (session == nullptr) return;
  session->Leave();
  std::lock_guard<std::mutex> lock(self.mutex);
  self.current = nullptr;
}

bool Runtime::initialized() const { return implementation_->session() != nullptr; }

Status Runtime::GetTopology(Topology* topology) const {
  const std::shared_ptr<Session> session = implementation_->session();
  if (session == nullptr) return NotInitialized();
  *topology = session->topology();
  return Status::Ok();
}

void Runtime::Submit(const OperationPointer& operation) {
  const std::shared_ptr<Session> session = implementation_->session();
  if (session == nullptr) {
    operation->done(NotInitialized());
    return;
  }
  if (operation->request.device == DeviceKind::kGpu) {
    const Status status = session->gpu().MarkReady(operation.get());
    if (!status.ok()) {
      session->participant().ReportFailure(operation->step_id, status);
      operation->done(status);
      return;
    }
  }
  session->participant().Submit(operation);
}

void Runtime::SetNcclLibrary(const std::string& path) { implementation_->state->nccl_library = path; }

void Runtime::Cancel(const OperationPointer& operation) {
  const std::shared_ptr<Session> session = implementation_->session();
  if (session == nullptr) return;
  ReportFailure(operation->step_id,
                {StatusCode::kCancelled,
                 Concat(Title(operation->request), " was cancelled on rank ", session->topology().rank,
                        ", because something else in its step failed there. That rank's own error says what.")});
}

void Runtime::ReportFailure(int64_t step_id, const Status& status) {
  if (const std::shared_ptr<Session> session = implementation_->session())
    session->participant().ReportFailure(step_id, status);
}

void Runtime::Interrupt() {
  const std::shared_ptr<Session> session = implementation_->session();
  if (session == nullptr) return;
  session->participant().FailWaiting(
      {StatusCode::kCancelled,
       Concat("rank ", session->topology().rank, " was interrupted (Ctrl-C) while it waited for a collective.")});
}

void Runtime::SetFusionThreshold(int64_t bytes) {
  implementation_->threshold_chosen = true;
  implementation_->state->fusion_threshold = bytes;
}

int64_t Runtime::FusionThreshold() const { return implementation_->state->fusion_threshold; }

FusionStatistics Runtime::Statistics() const {
  const SharedState& state = *implementation_->state;
  FusionStatistics statistics{state.tensors, state.batches, state.bytes, 0, 0};
  if (const std::shared_ptr<Session> session = implementation_->session()) {
    statistics.cache_hits = session->participant().cache_hits();
    statistics.cache_misses = session->participant().cache_misses();
  }
  return statistics;
}

void Runtime::ResetStatistics() {
  SharedState& state = *implementation_->state;
  state.tensors = state.batches = state.bytes = 0;
  if (const std::shared_ptr<Session> session = implementation_->session()) session->participant().ResetStatistics();
}

int64_t Runtime::OutputCacheBytes() const {
  const std::shared_ptr<Session> session = implementation_->session();
  return session == nullptr ? Environment().output_cache_bytes : session->environment().output_cache_bytes;
}

}  // namespace tf_collectives
