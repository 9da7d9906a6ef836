#include "driver/private_api.h"

#include <dlfcn.h>

#include <atomic>

#include "common/call_log.h"
#include "common/faults.h"
#include "common/settings.h"
#include "driver/devices.h"
#include "driver/sticky_error.h"

namespace cuda_standin {
namespace {

std::atomic<const StickyErrorState*> sticky{nullptr};

bool TakesStream(const std::string& function) {
  const auto starts = [&](const char* with) { return function.rfind(with, 0) == 0; };
  return starts("cuLaunch") || starts("cuEventRecord") || starts("cuStreamWaitEvent") ||
         starts("cuStreamAddCallback") || (starts("cuMem") && function.find("Async") != std::string::npos);
}

}  // namespace

int DeviceCount() { return static_cast<int>(Devices().size()); }

int CurrentDeviceOrdinal() { return CurrentDevice(); }

void MakeDeviceCurrent(int ordinal) { SetCurrentDevice(ordinal); }

int PhysicalDevice(int ordinal) { return DeviceAt(ordinal)->physical; }

std::string PciBusIdOf(int ordinal) { return DeviceAt(ordinal)->PciBusId(); }

int DeviceOfPointer(const void* pointer) {
  const Device* device = DeviceOwning(reinterpret_cast<CUdeviceptr>(pointer));
  return device == nullptr ? -1 : device->ordinal;
}

void* ViewForUser(const void* pointer, size_t bytes, const std::string& user) {
  const auto address = reinterpret_cast<CUdeviceptr>(pointer);
  const Device* device = DeviceOwning(address);
  if (device == nullptr) return const_cast<void*>(pointer);
  void* view = device->memory.View(address, bytes);
  if (view == nullptr)
    SetStickyError(CUDA_ERROR_ILLEGAL_ADDRESS, user + " reached for " + std::to_string(bytes) + " bytes at " +
                                                   DescribeAddress(address) + ", which aren't all in it");
  return view;
}

bool IsAccessible(const void* pointer, size_t bytes) {
  const auto address = reinterpret_cast<CUdeviceptr>(pointer);
  const Device* device = DeviceOwning(address);
  return device == nullptr || device->memory.View(address, bytes) != nullptr;
}

int DeviceOfStream(CUstream stream) {
  const std::shared_ptr<Stream> found = FindStream(stream);
  return found == nullptr ? -1 : found->device();
}

unsigned long long IdOfStream(CUstream stream) {
  const std::shared_ptr<Stream> found = FindStream(stream);
  return found == nullptr ? 0 : found->id();
}

void PushTask(CUstream stream, std::function<void()> task) {
  const std::shared_ptr<Stream> found = FindStream(stream);
  if (found == nullptr) Die("a task for a stream that was destroyed");
  found->Push(std::move(task));
}

CUdeviceptr AllocateOn(int device, size_t bytes) { return DeviceAt(device)->memory.Allocate(bytes); }

bool FreeDeviceMemory(CUdeviceptr pointer) {
  Device* device = DeviceOwning(pointer);
  return device != nullptr && device->memory.Free(pointer);
}

CUresult StickyError() {
  const StickyErrorState* state = sticky.load();
  return state == nullptr ? CUDA_SUCCESS : state->error;
}

const StickyErrorState* FindStickyError() { return sticky.load(); }

void SetStickyError(CUresult error, const std::string& text) {
  Complain(text);
  LogCall("sticky error", FieldsForLog("error", error, "text", text));
  const StickyErrorState* none = nullptr;
  sticky.compare_exchange_strong(none, new StickyErrorState{error, text});
}

std::string DescribeAddress(CUdeviceptr pointer) {
  const Device* device = DeviceOwning(pointer);
  if (device == nullptr) return "a host address";
  const std::string on_device = " of device " + std::to_string(device->ordinal);
  const std::optional<Range> range = device->memory.AllocationOf(pointer);
  if (!range) return "an address" + on_device + " that isn't in a live allocation";
  return "offset " + std::to_string(pointer - range->begin) + " of an allocation of " + std::to_string(range->bytes) +
         " bytes" + on_device;
}

CUresult EnterCall(const char* function, const std::string& fields) {
  const std::string name = WithoutVersion(function);
  LogCall(name, fields);
  SetFaultOfNextTask({});
  if (IsInHostFunction()) {
    Complain(name + " was called inside a host function of a stream, where no CUDA call is allowed");
    LogCall("refused in host function", FieldsForLog("function", name));
    return CUDA_ERROR_NOT_PERMITTED;
  }
  const Fault fault = FaultOf(name, GetSettings().rank);
  if (fault.action == Fault::Action::kFail) return static_cast<CUresult>(fault.number);
  if (fault.action == Fault::Action::kHang && !TakesStream(name)) HangForever();
  SetFaultOfNextTask(fault);
  return CUDA_SUCCESS;
}

bool InHostFunction() { return IsInHostFunction(); }

void* DriverFunction(const char* name) {
  static void* library = [] {
    Dl_info place;
    dladdr(reinterpret_cast<void*>(&DriverFunction), &place);
    return dlopen(place.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  }();
  void* function = dlsym(library, name);
  if (function == nullptr) Die(std::string("no ") + name + " in the stand-in's libcuda");
  return function;
}

int cuda_standin_missing(const char* library, const char* function, int result) {
  Complain(std::string(library) + ": " + function + " isn't implemented, and returns " + std::to_string(result));
  LogCall("missing", FieldsForLog("library", library, "function", function));
  return result;
}

}  // namespace cuda_standin
