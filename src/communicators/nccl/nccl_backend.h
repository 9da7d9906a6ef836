#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "communicators/device_backend.h"
#include "communicators/nccl/nccl_communicator.h"

namespace tf_collectives {

/// The GPU backend. One thread launches, so that all NCCL calls of the device come in one order; another watches the
/// events of what was launched. No work is ever queued on TensorFlow's stream, except the event that marks inputs as
/// ready.
class NcclBackend : public DeviceBackend {
 public:
  static Status Make(const Options& options, std::unique_ptr<DeviceBackend>* backend);
  ~NcclBackend() override;

  Status MarkReady(Operation* operation) override;
  Status Introduce(void* stream, DeviceIntroduction* introduction) override;
  Status Connect(const DeviceIntroduction& of_rank_zero) override;
  bool connected() const override { return communicator_ != nullptr; }
  void Launch(DeviceBatch batch) override;
  int in_flight() const override { return in_flight_; }
  void Abort(const Status& status) override;

 private:
  struct Running {
    DeviceBatch batch;
    cuda::PooledEvent finished;
    Clock::time_point since;
  };

  NcclBackend(const Options& options, const cuda::CudaDriver* driver) : options_(options), driver_(driver) {}

  Status OpenDevice(void* stream);
  void LaunchLoop();
  void WatchLoop();
  /// Queues a batch on the communication stream, and the event that tells that it is done.
  Status Queue(Running* running);
  /// Whether a batch is done; an error of it, of NCCL, or its deadline is the status.
  Status Examine(const Running& running, bool* finished) const;
  void Report(DeviceBatch* batch, const Status& status);

  const Options options_;
  const cuda::CudaDriver* driver_;
  const cuda::Nccl* nccl_ = nullptr;
  std::mutex device_mutex_;
  std::unique_ptr<cuda::Device> device_;
  std::unique_ptr<cuda::EventPool> events_;
  std::unique_ptr<NcclCommunicator> communicator_;

  std::atomic<int> in_flight_{0};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<DeviceBatch> to_launch_;
  std::deque<Running> running_;
  Status aborted_;
  bool stop_ = false;
  std::thread launcher_;
  std::thread watcher_;
};

}  // namespace tf_collectives
