// libnvidia-ml.so.1: what TensorFlow asks when it counts devices. It shows none where nvmlInit fails.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "driver/private_api.h"

#pragma GCC visibility push(default)

namespace {

enum Result { kSuccess = 0, kInvalidArgument = 2, kNotSupported = 3, kNotFound = 6 };

// A handle is the number of the device plus one.
void* HandleOf(int device) { return reinterpret_cast<void*>(static_cast<uintptr_t>(device + 1)); }

}  // namespace

extern "C" {

Result nvmlInit_v2() { return kSuccess; }
Result nvmlInitWithFlags(unsigned) { return kSuccess; }
Result nvmlShutdown() { return kSuccess; }
const char* nvmlErrorString(Result) { return "the CUDA stand-in has no NVML"; }

Result nvmlSystemGetDriverVersion(char* version, unsigned length) {
  std::snprintf(version, length, "555.42.06");
  return kSuccess;
}

Result nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = CUDA_VERSION;
  return kSuccess;
}

Result nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(cuda_standin::DeviceCount());
  return kSuccess;
}

Result nvmlDeviceGetHandleByIndex_v2(unsigned index, void** handle) {
  if (static_cast<int>(index) >= cuda_standin::DeviceCount()) return kInvalidArgument;
  *handle = HandleOf(static_cast<int>(index));
  return kSuccess;
}

// NVML writes the domain with eight digits, the driver with four.
Result nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** handle) {
  const char* bus = std::strchr(id, ':');
  for (int device = 0; bus != nullptr && device < cuda_standin::DeviceCount(); ++device) {
    if (cuda_standin::PciBusIdOf(device).find(bus) == std::string::npos) continue;
    *handle = HandleOf(device);
    return kSuccess;
  }
  return kNotFound;
}

Result nvmlDeviceGetCurrPcieLinkGeneration(void*, unsigned* generation) {
  *generation = 4;
  return kSuccess;
}

Result nvmlDeviceGetMaxPcieLinkGeneration(void*, unsigned* generation) {
  *generation = 4;
  return kSuccess;
}

Result nvmlDeviceGetCurrPcieLinkWidth(void*, unsigned* width) {
  *width = 16;
  return kSuccess;
}

Result nvmlDeviceGetMaxPcieLinkWidth(void*, unsigned* width) {
  *width = 16;
  return kSuccess;
}

Result nvmlDeviceGetNvLinkState(void*, unsigned, unsigned*) { return kNotSupported; }
Result nvmlDeviceGetGpuFabricInfo(void*, void*) { return kNotSupported; }
Result nvmlDeviceGetGpuFabricInfoV(void*, void*) { return kNotSupported; }

}  // extern "C"
