#include "communicators/nccl/nccl_backend.h"

#include <cstring>

#include "text.h"
#include "tf_collectives/export.h"

namespace tf_collectives {
namespace {

// How often the watcher looks. An event can't be waited for together with NCCL's errors and deadlines.
constexpr auto kPollInterval = std::chrono::microseconds(20);

}  // namespace

Status NcclBackend::Make(const Options& options, std::unique_ptr<DeviceBackend>* backend) {
  Status status;
  const cuda::CudaDriver* driver = cuda::LoadCudaDriver(&status);
  if (driver != nullptr) backend->reset(new NcclBackend(options, driver));
  return status;
}

NcclBackend::~NcclBackend() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (launcher_.joinable()) launcher_.join();
  if (watcher_.joinable()) watcher_.join();
}

Status NcclBackend::OpenDevice(void* stream) {
  std::lock_guard<std::mutex> lock(device_mutex_);
  int ordinal = 0;
  TFC_RETURN_IF_ERROR(cuda::Device::OrdinalOf(driver_, static_cast<CUstream>(stream), &ordinal));
  if (device_ == nullptr) {
    TFC_RETURN_IF_ERROR(cuda::Device::Open(driver_, ordinal, &device_));
    events_ = std::make_unique<cuda::EventPool>(device_.get());
  }
  if (device_->ordinal() == ordinal) return Status::Ok();
  return {StatusCode::kInvalidArgument,
          Concat("rank ", options_.rank, " runs collectives on GPU ", device_->ordinal(), " and now on GPU ", ordinal,
                 ". One rank uses one GPU: start a rank per GPU, and call tf_collectives.pin_gpu() after init().")};
}

Status NcclBackend::MarkReady(Operation* operation) {
  TFC_RETURN_IF_ERROR(OpenDevice(operation->stream));
  const cuda::ContextGuard guard(driver_, device_->context());
  TFC_RETURN_IF_ERROR(guard.status());
  cuda::PooledEvent event;
  TFC_RETURN_IF_ERROR(events_->Acquire(&event));
  TFC_CUDA_RETURN_IF_ERROR(driver_, cuEventRecord, event.get(), static_cast<CUstream>(operation->stream));
  operation->ready = std::shared_ptr<CUevent_st>(std::move(event));
  return Status::Ok();
}

Status NcclBackend::Introduce(void* stream, DeviceIntroduction* introduction) {
  TFC_RETURN_IF_ERROR(OpenDevice(stream));
  introduction->uuid = device_->uuid();
  std::strncpy(introduction->bus_id.data(), device_->bus_id().c_str(), introduction->bus_id.size() - 1);
  Status status;
  nccl_ = cuda::LoadNccl(options_.nccl_library, &status);
  TFC_RETURN_IF_ERROR(status);
  if (options_.rank != 0) return Status::Ok();
  cuda::ncclUniqueId id;
  TFC_NCCL_RETURN_IF_ERROR(nccl_, nullptr, ncclGetUniqueId, &id);
  static_assert(sizeof(id) == sizeof(introduction->communicator_id));
  std::memcpy(introduction->communicator_id.data(), &id, sizeof(id));
  return Status::Ok();
}

Status NcclBackend::Connect(const DeviceIntroduction& of_rank_zero) {
  cuda::ncclUniqueId id;
  std::memcpy(&id, of_rank_zero.communicator_id.data(), sizeof(id));
  TFC_RETURN_IF_ERROR(NcclCommunicator::Connect(device_.get(), nccl_, id, options_, &communicator_));
  launcher_ = std::thread([this] { LaunchLoop(); });
  watcher_ = std::thread([this] { WatchLoop(); });
  return Status::Ok();
}

void NcclBackend::Launch(DeviceBatch batch) {
  ++in_flight_;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    to_launch_.push_back(std::move(batch));
  }
  changed_.notify_all();
}

void NcclBackend::LaunchLoop() {
  for (;;) {
    Running running;
    Status status;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return stop_ || !to_launch_.empty(); });
      if (to_launch_.empty()) return;
      running.batch = std::move(to_launch_.front());
      to_launch_.pop_front();
      status = stop_ ? Status(StatusCode::kCancelled, "tf_collectives was shut down.") : aborted_;
    }
    if (status.ok()) status = Queue(&running);
    if (!status.ok()) {
      Abort(status);
      Report(&running.batch, status);
      continue;
    }
    {
      std::lock_guard<std::mutex> lock(mutex_);
      running_.push_back(std::move(running));
    }
    changed_.notify_all();
  }
}

Status NcclBackend::Queue(Running* running) {
  const cuda::ContextGuard guard(driver_, device_->context());
  TFC_RETURN_IF_ERROR(guard.status());
  for (const std::shared_ptr<void>& ready : running->batch.ready) {
    TFC_CUDA_RETURN_IF_ERROR(driver_, cuStreamWaitEvent, communicator_->stream(), static_cast<CUevent>(ready.get()), 0);
  }
  TFC_RETURN_IF_ERROR(communicator_->Run(running->batch.batch));
  TFC_RETURN_IF_ERROR(events_->Acquire(&running->finished));
  TFC_CUDA_RETURN_IF_ERROR(driver_, cuEventRecord, running->finished.get(), communicator_->stream());
  running->since = Clock::now();
  return Status::Ok();
}

void NcclBackend::WatchLoop() {
  for (;;) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return stop_ || !running_.empty(); });
      if (running_.empty()) return;
    }
    // Only this thread takes from the front, so it may look at it without the lock.
    Running& oldest = running_.front();
    bool finished = false;
    Status status = Examine(oldest, &finished);
    if (status.ok() && !finished) {
      std::this_thread::sleep_for(kPollInterval);
      continue;
    }
    if (!status.ok()) Abort(status);
    DeviceBatch batch;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      batch = std::move(oldest.batch);
      running_.pop_front();
    }
    Report(&batch, status);
  }
}

Status NcclBackend::Examine(const Running& running, bool* finished) const {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    TFC_RETURN_IF_ERROR(aborted_);
  }
  const cuda::ContextGuard guard(driver_, device_->context());
  TFC_RETURN_IF_ERROR(guard.status());
  TFC_RETURN_IF_ERROR(cuda::QueryEvent(driver_, running.finished.get(), finished));
  if (*finished) return Status::Ok();
  TFC_RETURN_IF_ERROR(communicator_->CheckAsync());
  if (options_.timeout.count() == 0 || Clock::now() < running.since + options_.timeout) return Status::Ok();
  return {StatusCode::kDeadlineExceeded, Concat("a collective on the GPU of rank ", options_.rank, " has run for over ",
                                                std::chrono::duration<double>(options_.timeout).count(),
                                                " s (TFC_TIMEOUT_SECONDS). A rank's GPU or the link to it may hang; "
                                                "NCCL_DEBUG=INFO shows what NCCL waits for.")};
}

void NcclBackend::Abort(const Status& status) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!aborted_.ok()) return;
    aborted_ = status;
  }
  if (communicator_ != nullptr) communicator_->Abort();
}

void NcclBackend::Report(DeviceBatch* batch, const Status& status) {
  --in_flight_;
  batch->done(status);
}

}  // namespace tf_collectives

extern "C" TFC_EXPORT tf_collectives::DeviceBackend* tfc_make_device_backend(
    const tf_collectives::DeviceBackend::Options* options, tf_collectives::Status* status) {
  std::unique_ptr<tf_collectives::DeviceBackend> backend;
  *status = tf_collectives::NcclBackend::Make(*options, &backend);
  return backend.release();
}
