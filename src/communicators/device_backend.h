#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "communicators/communicator.h"
#include "shared_memory/futex.h"
#include "tf_collectives/operation.h"

namespace tf_collectives {

/// What a rank tells the others before they communicate between GPUs. Plain bytes, because it goes through shared
/// memory.
struct DeviceIntroduction {
  std::array<char, 16> uuid{};
  std::array<char, 32> bus_id{};
  /// Rank 0 makes it; all connect with it.
  std::array<char, 128> communicator_id{};
};

/// A batch in GPU memory. `done` is called once, on a thread of the backend, when the outputs may be used by any
/// stream.
struct DeviceBatch {
  Batch batch;
  /// Marks of the operations, after which their memory may be used.
  std::vector<std::shared_ptr<void>> ready;
  std::function<void(const Status&)> done;
};

/// Collectives between GPUs. Lives in a library of its own, which the runtime opens when the first operation on a GPU
/// appears, so that this one knows nothing of CUDA.
class DeviceBackend {
 public:
  struct Options {
    int rank = 0;
    int size = 1;
    /// Seen in NCCL's own messages.
    std::string name;
    /// How long connecting, and one batch, may take; zero: for ever.
    Clock::duration timeout{};
    /// Tensors from this size on travel without being packed.
    int64_t pack_limit_bytes = 0;
    /// Size of the fusion buffer.
    int64_t slab_bytes = 0;
    /// libnccl.so.2 of the package nvidia-nccl-cu12, or empty.
    std::string nccl_library;
  };

  virtual ~DeviceBackend() = default;

  /// Marks the present end of the operation's stream: what is queued there now must pass before its memory is used.
  virtual Status MarkReady(Operation* operation) = 0;

  // The rest is for the runtime's thread.
  /// Opens the GPU that `stream` belongs to.
  virtual Status Introduce(void* stream, DeviceIntroduction* introduction) = 0;
  virtual Status Connect(const DeviceIntroduction& of_rank_zero) = 0;
  virtual bool connected() const = 0;
  /// Queues a batch; batches run in the order of these calls.
  virtual void Launch(DeviceBatch batch) = 0;
  /// Batches that were launched and aren't done.
  virtual int in_flight() const = 0;
  /// Ends everything in flight with `status`, and whatever is launched later. From any thread.
  virtual void Abort(const Status& status) = 0;
};

/// The symbol by which the library is entered.
constexpr const char* kDeviceBackendSymbol = "tfc_make_device_backend";
using MakeDeviceBackend = DeviceBackend* (*)(const DeviceBackend::Options*, Status*);

}  // namespace tf_collectives
