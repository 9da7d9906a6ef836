#include "cuda/device.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "text.h"

namespace tf_collectives::cuda {

ContextGuard::ContextGuard(const CudaDriver* driver, CUcontext context) : driver_(driver) {
  status_ = driver_->Check(driver_->cuCtxPushCurrent_v2(context), "cuCtxPushCurrent");
}

ContextGuard::~ContextGuard() {
  CUcontext popped = nullptr;
  if (status_.ok()) driver_->cuCtxPopCurrent_v2(&popped);
}

void StreamDeleter::operator()(CUstream stream) const {
  const ContextGuard guard(driver, context);
  driver->cuStreamDestroy_v2(stream);
}

void EventDeleter::operator()(CUevent event) const {
  const ContextGuard guard(driver, context);
  driver->cuEventDestroy_v2(event);
}

void DeviceMemoryDeleter::operator()(void* pointer) const {
  const ContextGuard guard(driver, context);
  driver->cuMemFree_v2(ToDevicePointer(pointer));
}

void PinnedMemoryDeleter::operator()(void* pointer) const {
  const ContextGuard guard(driver, context);
  driver->cuMemFreeHost(pointer);
}

Status Device::Open(const CudaDriver* driver, int ordinal, std::unique_ptr<Device>* device) {
  std::unique_ptr<Device> opened(new Device(driver, ordinal));
  TFC_RETURN_IF_ERROR(opened->Initialise());
  *device = std::move(opened);
  return Status::Ok();
}

Status Device::Initialise() {
  int count = 0;
  TFC_CUDA_RETURN_IF_ERROR(driver_, cuDeviceGetCount, &count);
  if (ordinal_ < 0 || ordinal_ >= count) {
    return {StatusCode::kInvalidArgument,
            Concat("GPU ", ordinal_, " was asked for, and this process sees ", count, " of them, counted from 0. ",
                   "Choose another, or change CUDA_VISIBLE_DEVICES.")};
  }
  TFC_CUDA_RETURN_IF_ERROR(driver_, cuDeviceGet, &device_, ordinal_);
  char text[256] = {};
  TFC_CUDA_RETURN_IF_ERROR(driver_, cuDeviceGetName, text, sizeof(text), device_);
  name_ = text;
  TFC_CUDA_RETURN_IF_ERROR(driver_, cuDeviceGetPCIBusId, text, sizeof(text), device_);
  bus_id_ = text;
  CUuuid uuid;
  TFC_CUDA_RETURN_IF_ERROR(driver_, cuDeviceGetUuid_v2, &uuid, device_);
  std::copy(std::begin(uuid.bytes), std::end(uuid.bytes), uuid_.begin());
  int major = 0, minor = 0;
  TFC_CUDA_RETURN_IF_ERROR(driver_, cuDeviceGetAttribute, &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                           device_);
  TFC_CUDA_RETURN_IF_ERROR(driver_, cuDeviceGetAttribute, &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                           device_);
  compute_capability_ = 10 * major + minor;
  TFC_CUDA_RETURN_IF_ERROR(driver_, cuDeviceGetAttribute, &multiprocessors_, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
                           device_);
  return driver_->Check(driver_->cuDevicePrimaryCtxRetain(&context_, device_), "cuDevicePrimaryCtxRetain");
}

Device::~Device() {
  if (context_ != nullptr) driver_->cuDevicePrimaryCtxRelease_v2(device_);
}

Status Device::OrdinalOf(const CudaDriver* driver, CUstream stream, int* ordinal) {
  CUcontext context = nullptr;
  TFC_CUDA_RETURN_IF_ERROR(driver, cuStreamGetCtx, stream, &context);
  const ContextGuard guard(driver, context);
  TFC_RETURN_IF_ERROR(guard.status());
  CUdevice device = 0;
  TFC_CUDA_RETURN_IF_ERROR(driver, cuCtxGetDevice, &device);
  // A CUdevice is the ordinal today, but nothing says that it stays so.
  int count = 0;
  TFC_CUDA_RETURN_IF_ERROR(driver, cuDeviceGetCount, &count);
  for (*ordinal = 0; *ordinal < count; ++*ordinal) {
    CUdevice candidate = 0;
    TFC_CUDA_RETURN_IF_ERROR(driver, cuDeviceGet, &candidate, *ordinal);
    if (candidate == device) return Status::Ok();
  }
  return {StatusCode::kInternal,
          "A stream belongs to a device that the CUDA driver doesn't list. This is a fault of tf_collectives or of the "
          "driver; please report it."};
}

template <typename D>
D Device::DeleterOf() const {
  D deleter;
  deleter.driver = driver_;
  deleter.context = context_;
  return deleter;
}

Status Device::CreateStream(Stream* stream) const {
  const ContextGuard guard(driver_, context_);
  TFC_RETURN_IF_ERROR(guard.status());
  int least = 0, greatest = 0;
  TFC_CUDA_RETURN_IF_ERROR(driver_, cuCtxGetStreamPriorityRange, &least, &greatest);
  CUstream created = nullptr;
  TFC_CUDA_RETURN_IF_ERROR(driver_, cuStreamCreateWithPriority, &created, CU_STREAM_NON_BLOCKING, greatest);
  *stream = Stream(created, DeleterOf<StreamDeleter>());
  return Status::Ok();
}

Status Device::CreateEvent(Event* event, unsigned flags) const {
  const ContextGuard guard(driver_, context_);
  TFC_RETURN_IF_ERROR(guard.status());
  CUevent created = nullptr;
  TFC_CUDA_RETURN_IF_ERROR(driver_, cuEventCreate, &created, flags);
  *event = Event(created, DeleterOf<EventDeleter>());
  return Status::Ok();
}

Status Device::Allocate(size_t bytes, const char* purpose, DeviceMemory* memory) const {
  const ContextGuard guard(driver_, context_);
  TFC_RETURN_IF_ERROR(guard.status());
  CUdeviceptr pointer = 0;
  TFC_RETURN_IF_ERROR(driver_->Check(driver_->cuMemAlloc_v2(&pointer, bytes),
                                     Concat("cuMemAlloc of ", bytes, " bytes for ", purpose).c_str()));
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the driver gives addresses as numbers.
  *memory = DeviceMemory(reinterpret_cast<void*>(pointer), DeleterOf<DeviceMemoryDeleter>());
  return Status::Ok();
}

Status Device::AllocatePinned(size_t bytes, const char* purpose, PinnedMemory* memory) const {
  const ContextGuard guard(driver_, context_);
  TFC_RETURN_IF_ERROR(guard.status());
  void* pointer = nullptr;
  TFC_RETURN_IF_ERROR(driver_->Check(driver_->cuMemHostAlloc(&pointer, bytes, 0),
                                     Concat("cuMemHostAlloc of ", bytes, " bytes for ", purpose).c_str()));
  *memory = PinnedMemory(pointer, DeleterOf<PinnedMemoryDeleter>());
  return Status::Ok();
}

Status EventPool::Acquire(PooledEvent* event) {
  Event acquired;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!idle_.empty()) {
      acquired = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (acquired == nullptr) TFC_RETURN_IF_ERROR(device_->CreateEvent(&acquired));
  *event = PooledEvent(acquired.release(), Returner{this});
  return Status::Ok();
}

void EventPool::Returner::operator()(CUevent event) const {
  EventDeleter deleter;
  deleter.driver = pool->device_->driver();
  deleter.context = pool->device_->context();
  const std::lock_guard<std::mutex> lock(pool->mutex_);
  pool->idle_.emplace_back(event, deleter);
}

Status QueryEvent(const CudaDriver* driver, CUevent event, bool* done) {
  const CUresult result = driver->cuEventQuery(event);
  *done = result == CUDA_SUCCESS;
  return result == CUDA_ERROR_NOT_READY ? Status::Ok() : driver->Check(result, "cuEventQuery");
}

}  // namespace tf_collectives::cuda
