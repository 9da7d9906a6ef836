#include "driver/devices.h"

#include <cstdio>
#include <cstdlib>

#include "common/settings.h"

namespace cuda_standin {
namespace {

thread_local std::vector<int> contexts;

// As the real driver reads it: the list ends at the first entry that names no device.
std::vector<int> VisibleDevices() {
  const int count = GetSettings().devices;
  std::vector<int> visible;
  const char* list = std::getenv("CUDA_VISIBLE_DEVICES");
  if (list == nullptr) {
    for (int device = 0; device < count; ++device) visible.push_back(device);
    return visible;
  }
  while (*list != '\0') {
    char* end = nullptr;
    const long device = std::strtol(list, &end, 10);
    if (end == list || device < 0 || device >= count) break;
    visible.push_back(static_cast<int>(device));
    list = *end == ',' ? end + 1 : end;
  }
  return visible;
}

}  // namespace

Device::Device(int ordinal_, int physical_, size_t bytes)
    : ordinal(ordinal_), physical(physical_), memory(bytes), default_stream(std::make_shared<Stream>(ordinal_, 0, 0)) {}

std::string Device::PciBusId() const {
  char text[32];
  std::snprintf(text, sizeof text, "0000:%02x:00.0", static_cast<unsigned>(0x40 + physical));
  return text;
}

const std::vector<std::unique_ptr<Device>>& Devices() {
  static const auto* devices = [] {
    auto* list = new std::vector<std::unique_ptr<Device>>;
    for (const int physical : VisibleDevices())
      list->push_back(std::make_unique<Device>(static_cast<int>(list->size()), physical, GetSettings().device_bytes));
    return list;
  }();
  return *devices;
}

Device* DeviceAt(int ordinal) {
  if (ordinal < 0 || ordinal >= static_cast<int>(Devices().size())) return nullptr;
  return Devices()[static_cast<size_t>(ordinal)].get();
}

Device* DeviceOf(CUcontext context) {
  for (const auto& device : Devices())
    if (device->Context() == context) return device.get();
  return nullptr;
}

Device* DeviceOwning(CUdeviceptr pointer) {
  for (const auto& device : Devices())
    if (device->memory.Owns(pointer)) return device.get();
  return nullptr;
}

int CurrentDevice() { return contexts.empty() ? -1 : contexts.back(); }

void SetCurrentDevice(int ordinal) {
  if (contexts.empty())
    contexts.push_back(ordinal);
  else
    contexts.back() = ordinal;
}

void PushCurrentDevice(int ordinal) { contexts.push_back(ordinal); }

bool PopCurrentDevice() {
  if (contexts.empty()) return false;
  contexts.pop_back();
  return true;
}

}  // namespace cuda_standin
