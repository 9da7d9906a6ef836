#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "communicators/communicator.h"
#include "communicators/device_backend.h"
#include "tf_collectives/environment.h"

namespace tf_collectives {

/// This rank's way to the GPUs of the others: opened at its first operation on a GPU, connected when all ranks have
/// scheduled one.
class DeviceLink {
 public:
  DeviceLink(const Environment& environment, std::string nccl_library)
      : environment_(environment), nccl_library_(std::move(nccl_library)) {}

  /// From any thread. Opens the backend if need be, and marks where the operation's memory is ready.
  Status MarkReady(Operation* operation);

  // The rest is for the runtime's thread.
  /// Connects the GPUs of all ranks, which call this at the same place of their sequence. The result is the same on
  /// all. `exchange` carries what they tell each other.
  Status Connect(void* stream, Communicator* exchange);
  DeviceBackend* backend() const { return backend_.get(); }
  int in_flight() const { return backend_ == nullptr ? 0 : backend_->in_flight(); }
  void Abort(const Status& status);
  void Close();

 private:
  Status Open();

  const Environment environment_;
  const std::string nccl_library_;
  std::mutex mutex_;
  std::unique_ptr<DeviceBackend> backend_;
};

}  // namespace tf_collectives
