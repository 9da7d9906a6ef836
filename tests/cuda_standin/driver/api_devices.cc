// cuInit, cuDevice* and cuCtx*.

#include <strings.h>

#include <cstdio>
#include <cstring>

#include "common/call_log.h"
#include "common/settings.h"
#include "driver/devices.h"
#include "driver/private_api.h"

#pragma GCC visibility push(default)

using namespace cuda_standin;

namespace {

int AttributeOf(const Device& device, int attribute) {
  const int capability = GetSettings().compute_capability;
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      return capability / 10;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      return capability % 10;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
      return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
      return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
      return 2147483647;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
      return 65535;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      return 32;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
      return 49152;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      return 166912;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      return 167936;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
    case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY:
      return 65536;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
      return 2048;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
      return 32;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      return 8;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
      return 1000000;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
      return 256;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
      return 4 << 20;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT:
      return 512;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
      return 1;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
      return 0x40 + device.physical;
    default:
      return 0;
  }
}

}  // namespace

extern "C" {

CUresult cuInit(unsigned) {
  STANDIN_ENTER();
  return Devices().empty() ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int* version) {
  STANDIN_ENTER();
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  STANDIN_ENTER();
  *count = DeviceCount();
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  STANDIN_ENTER("ordinal", ordinal);
  if (DeviceAt(ordinal) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int length, CUdevice ordinal) {
  STANDIN_ENTER("ordinal", ordinal);
  const Device* device = DeviceAt(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(name, static_cast<size_t>(length), "CUDA stand-in %d", device->physical);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice ordinal) {
  STANDIN_ENTER("ordinal", ordinal);
  const Device* device = DeviceAt(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  std::memset(uuid, 0, sizeof *uuid);
  std::memcpy(uuid->bytes, "stand-in", 8);
  uuid->bytes[15] = static_cast<char>(device->physical + 1);
  return CUDA_SUCCESS;
}

#undef cuDeviceGetUuid
CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice ordinal) { return cuDeviceGetUuid_v2(uuid, ordinal); }

CUresult cuDeviceTotalMem(size_t* bytes, CUdevice ordinal) {
  STANDIN_ENTER("ordinal", ordinal);
  const Device* device = DeviceAt(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = device->memory.size();
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char* id, int length, CUdevice ordinal) {
  STANDIN_ENTER("ordinal", ordinal);
  const Device* device = DeviceAt(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(id, static_cast<size_t>(length), "%s", device->PciBusId().c_str());
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetByPCIBusId(CUdevice* ordinal, const char* id) {
  STANDIN_ENTER("id", id);
  for (const auto& device : Devices()) {
    if (strcasecmp(device->PciBusId().c_str(), id) != 0) continue;
    *ordinal = device->ordinal;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice ordinal) {
  STANDIN_ENTER("ordinal", ordinal, "attribute", attribute);
  const Device* device = DeviceAt(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *value = AttributeOf(*device, attribute);
  return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice from, CUdevice to) {
  STANDIN_ENTER("from", from, "to", to);
  *can = from != to;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute, CUdevice from, CUdevice to) {
  STANDIN_ENTER("from", from, "to", to);
  *value = 0;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice ordinal) {
  STANDIN_ENTER("ordinal", ordinal);
  Device* device = DeviceAt(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  ++device->primary_context_users;
  *context = device->Context();
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice ordinal) {
  STANDIN_ENTER("ordinal", ordinal);
  Device* device = DeviceAt(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (device->primary_context_users == 0) return CUDA_ERROR_INVALID_CONTEXT;
  --device->primary_context_users;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice ordinal, unsigned) {
  STANDIN_ENTER("ordinal", ordinal);
  return DeviceAt(ordinal) == nullptr ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice ordinal, unsigned* flags, int* active) {
  STANDIN_ENTER("ordinal", ordinal);
  const Device* device = DeviceAt(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *flags = 0;
  *active = device->primary_context_users > 0;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  STANDIN_ENTER();
  Device* device = DeviceAt(CurrentDevice());
  *context = device == nullptr ? nullptr : device->Context();
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  STANDIN_ENTER();
  if (context == nullptr) {
    PopCurrentDevice();
    return CUDA_SUCCESS;
  }
  const Device* device = DeviceOf(context);
  if (device == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  SetCurrentDevice(device->ordinal);
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext context) {
  STANDIN_ENTER();
  const Device* device = DeviceOf(context);
  if (device == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  PushCurrentDevice(device->ordinal);
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext* context) {
  STANDIN_ENTER();
  Device* device = DeviceAt(CurrentDevice());
  if (!PopCurrentDevice()) return CUDA_ERROR_INVALID_CONTEXT;
  if (context != nullptr) *context = device->Context();
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* ordinal) {
  STANDIN_ENTER();
  if (CurrentDevice() < 0) return CUDA_ERROR_INVALID_CONTEXT;
  *ordinal = CurrentDevice();
  return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned* flags) {
  STANDIN_ENTER();
  *flags = 0;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext, unsigned* version) {
  STANDIN_ENTER();
  *version = 3020;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  STANDIN_ENTER();
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -1;
  return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext context, unsigned) {
  STANDIN_ENTER();
  return DeviceOf(context) == nullptr ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig) {
  STANDIN_ENTER();
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize() {
  STANDIN_ENTER();
  if (CurrentDevice() < 0) return CUDA_ERROR_INVALID_CONTEXT;
  for (const auto& stream : StreamsOf(CurrentDevice())) stream->Wait();
  return StickyError();
}

}  // extern "C"
