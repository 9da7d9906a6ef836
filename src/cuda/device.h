#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cuda/driver.h"

namespace tf_collectives::cuda {

/// Makes a context the calling thread's current one, and the former one again at the end of the scope.
class ContextGuard {
 public:
  ContextGuard(const CudaDriver* driver, CUcontext context);
  ~ContextGuard();
  ContextGuard(const ContextGuard&) = delete;
  ContextGuard& operator=(const ContextGuard&) = delete;

  const Status& status() const { return status_; }

 private:
  const CudaDriver* driver_;
  Status status_;
};

/// Deletes what belongs to a context. Errors are dropped: they come from a driver that ends with the process, or repeat
/// what an earlier call has reported.
struct Deleter {
  const CudaDriver* driver = nullptr;
  CUcontext context = nullptr;
};
struct StreamDeleter : Deleter {
  void operator()(CUstream stream) const;
};
struct EventDeleter : Deleter {
  void operator()(CUevent event) const;
};
struct DeviceMemoryDeleter : Deleter {
  void operator()(void* pointer) const;
};
struct PinnedMemoryDeleter : Deleter {
  void operator()(void* pointer) const;
};

using Stream = std::unique_ptr<CUstream_st, StreamDeleter>;
using Event = std::unique_ptr<CUevent_st, EventDeleter>;
/// Pointers to device memory are void*, as NCCL takes them; ToDevicePointer makes the driver's numbers of them.
using DeviceMemory = std::unique_ptr<void, DeviceMemoryDeleter>;
/// Host memory that the device copies from without a detour.
using PinnedMemory = std::unique_ptr<void, PinnedMemoryDeleter>;

inline CUdeviceptr ToDevicePointer(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

/// One GPU, by its primary context, which is the one that TensorFlow uses as well. It outlives all that it creates.
class Device {
 public:
  /// `ordinal` counts the GPUs that the driver shows, which CUDA_VISIBLE_DEVICES has filtered already.
  static Status Open(const CudaDriver* driver, int ordinal, std::unique_ptr<Device>* device);
  /// The ordinal of the GPU that a stream belongs to.
  static Status OrdinalOf(const CudaDriver* driver, CUstream stream, int* ordinal);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const CudaDriver* driver() const { return driver_; }
  CUcontext context() const { return context_; }
  int ordinal() const { return ordinal_; }
  const std::string& name() const { return name_; }
  /// Such as "0000:3b:00.0".
  const std::string& bus_id() const { return bus_id_; }
  /// The same in every process and container; parts of a GPU (MIG) have uuids of their own.
  const std::array<char, 16>& uuid() const { return uuid_; }
  /// 90 for compute capability 9.0.
  int compute_capability() const { return compute_capability_; }
  int multiprocessors() const { return multiprocessors_; }

  /// A stream that doesn't synchronise with the legacy default stream. It has the highest priority, so that a
  /// collective isn't queued behind the blocks of a large compute kernel.
  Status CreateStream(Stream* stream) const;
  /// An event, without timing unless asked for, since that is faster.
  Status CreateEvent(Event* event, unsigned flags = CU_EVENT_DISABLE_TIMING) const;
  Status Allocate(size_t bytes, const char* purpose, DeviceMemory* memory) const;
  Status AllocatePinned(size_t bytes, const char* purpose, PinnedMemory* memory) const;

 private:
  Device(const CudaDriver* driver, int ordinal) : driver_(driver), ordinal_(ordinal) {}
  Status Initialise();
  template <typename D>
  D DeleterOf() const;

  const CudaDriver* driver_;
  int ordinal_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  std::string name_;
  std::string bus_id_;
  std::array<char, 16> uuid_{};
  int compute_capability_ = 0;
  int multiprocessors_ = 0;
};

/// Events to be used again, because creating one costs more than recording it. For any thread; outlives its events.
class EventPool {
 public:
  explicit EventPool(const Device* device) : device_(device) {}

  struct Returner {
    EventPool* pool = nullptr;
    void operator()(CUevent event) const;
  };
  /// Goes back into the pool when it is destroyed. It may do so while the event is still pending: recording it anew
  /// replaces what it stood for, and waits that were queued before keep waiting for the former.
  using PooledEvent = std::unique_ptr<CUevent_st, Returner>;

  Status Acquire(PooledEvent* event);

 private:
  const Device* device_;
  std::mutex mutex_;
  std::vector<Event> idle_;
};
using PooledEvent = EventPool::PooledEvent;

/// Whether all that the event stands for is done. An error of the work itself shows here, too.
Status QueryEvent(const CudaDriver* driver, CUevent event, bool* done);

}  // namespace tf_collectives::cuda
