#include "cuda/fake_driver.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "cuda_kernels/host_kernels.h"
#include "testing.h"

namespace tf_collectives::cuda {
namespace {

CUresult Result() {
  const CUresult result = DriverLog().next_error;
  DriverLog().next_error = CUDA_SUCCESS;
  return result;
}

void* ToPointer(CUdeviceptr pointer) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the driver gives addresses as numbers.
  return reinterpret_cast<void*>(pointer);
}

/// A handle that is nothing but an address.
template <typename Handle>
Handle NewHandle() {
  ++DriverLog().alive;
  return reinterpret_cast<Handle>(new char);
}
template <typename Handle>
CUresult DeleteHandle(Handle handle) {
  --DriverLog().alive;
  delete reinterpret_cast<char*>(handle);
  return CUDA_SUCCESS;
}

CUresult Attribute(int* value, CUdevice_attribute attribute, CUdevice /*device*/) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = 84;
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = 8;
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = 6;
      break;
  }
  return CUDA_SUCCESS;
}

void FakeDevices(CudaDriver* driver) {
  driver->cuDeviceGetCount = [](int* count) { return *count = 1, CUDA_SUCCESS; };
  driver->cuDeviceGet = [](CUdevice* device, int) { return *device = 0, CUDA_SUCCESS; };
  driver->cuDeviceGetName = [](char* name, int, CUdevice) { return std::strcpy(name, "Fake GPU"), CUDA_SUCCESS; };
  driver->cuDeviceGetPCIBusId = [](char* id, int, CUdevice) { return std::strcpy(id, "0000:3b:00.0"), CUDA_SUCCESS; };
  driver->cuDeviceGetUuid_v2 = [](CUuuid* uuid, CUdevice) {
    std::memcpy(uuid->bytes, "0123456789abcdef", 16);
    return CUDA_SUCCESS;
  };
  driver->cuDeviceGetAttribute = Attribute;
  driver->cuDevicePrimaryCtxRetain = [](CUcontext* context, CUdevice) {
    *context = reinterpret_cast<CUcontext>(&DriverLog());
    return CUDA_SUCCESS;
  };
  driver->cuDevicePrimaryCtxRelease_v2 = [](CUdevice) { return ++DriverLog().contexts_released, CUDA_SUCCESS; };
  driver->cuCtxPushCurrent_v2 = [](CUcontext) { return ++DriverLog().contexts_pushed, CUDA_SUCCESS; };
  driver->cuCtxPopCurrent_v2 = [](CUcontext*) { return ++DriverLog().contexts_popped, CUDA_SUCCESS; };
  driver->cuCtxGetDevice = [](CUdevice* device) { return *device = 0, CUDA_SUCCESS; };
  driver->cuCtxGetStreamPriorityRange = [](int* least, int* greatest) {
    *least = 0;
    *greatest = -5;
    return CUDA_SUCCESS;
  };
}

void FakeStreamsAndEvents(CudaDriver* driver) {
  driver->cuStreamCreateWithPriority = [](CUstream* stream, unsigned flags, int priority) {
    CHECK_EQ(flags, CU_STREAM_NON_BLOCKING);
    CHECK_EQ(priority, -5);
    *stream = NewHandle<CUstream>();
    return CUDA_SUCCESS;
  };
  driver->cuStreamDestroy_v2 = DeleteHandle<CUstream>;
  driver->cuStreamGetCtx = [](CUstream, CUcontext* context) { return *context = nullptr, CUDA_SUCCESS; };
  driver->cuEventCreate = [](CUevent* event, unsigned) {
    ++DriverLog().events_created;
    *event = NewHandle<CUevent>();
    return CUDA_SUCCESS;
  };
  driver->cuEventDestroy_v2 = DeleteHandle<CUevent>;
  driver->cuEventRecord = [](CUevent, CUstream) { return CUDA_SUCCESS; };
  driver->cuEventQuery = [](CUevent) { return Result(); };
  driver->cuEventSynchronize = [](CUevent) { return ++DriverLog().event_waits, CUDA_SUCCESS; };
}

void FakeMemory(CudaDriver* driver) {
  driver->cuMemAlloc_v2 = [](CUdeviceptr* pointer, size_t bytes) {
    const CUresult result = Result();
    if (result != CUDA_SUCCESS) return result;
    ++DriverLog().allocations;
    ++DriverLog().alive;
    *pointer = ToDevicePointer(std::malloc(bytes));
    return result;
  };
  driver->cuMemFree_v2 = [](CUdeviceptr pointer) {
    --DriverLog().alive;
    std::free(ToPointer(pointer));
    return CUDA_SUCCESS;
  };
  driver->cuMemHostAlloc = [](void** pointer, size_t bytes, unsigned) {
    ++DriverLog().alive;
    *pointer = std::malloc(bytes);
    return CUDA_SUCCESS;
  };
  driver->cuMemFreeHost = [](void* pointer) {
    --DriverLog().alive;
    std::free(pointer);
    return CUDA_SUCCESS;
  };
  driver->cuMemcpyHtoDAsync_v2 = [](CUdeviceptr to, const void* from, size_t bytes, CUstream) {
    ++DriverLog().uploads;
    std::memcpy(ToPointer(to), from, bytes);
    return CUDA_SUCCESS;
  };
}

CUresult Launch(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream, void** parameters, void** extra) {
  const auto* kernel = reinterpret_cast<const HostKernel*>(function);
  CHECK_EQ(block_x, kBlockThreads);
  CHECK(grid_y == 1 && grid_z == 1 && block_y == 1 && block_z == 1 && shared_bytes == 0 && extra == nullptr);
  DriverLog().launches.emplace_back(kernel->name);
  kernel->run(*static_cast<const SegmentTable*>(parameters[0]), grid_x);
  return Result();
}

void FakeModules(CudaDriver* driver) {
  driver->cuModuleLoadData = [](CUmodule* module, const void*) {
    const CUresult result = Result();
    if (result == CUDA_SUCCESS) *module = NewHandle<CUmodule>();
    return result;
  };
  driver->cuModuleUnload = DeleteHandle<CUmodule>;
  driver->cuModuleGetFunction = [](CUfunction* function, CUmodule, const char* name) {
    for (const HostKernel& kernel : HostKernels()) {
      if (std::strcmp(kernel.name, name) == 0) {
        *function = reinterpret_cast<CUfunction>(const_cast<HostKernel*>(&kernel));
        return CUDA_SUCCESS;
      }
    }
    testing::Fail(__FILE__, __LINE__, std::string("no kernel ") + name);
    return CUDA_ERROR_INVALID_IMAGE;
  };
  driver->cuLaunchKernel = Launch;
}

}  // namespace

const CudaDriver* FakeDriver() {
  static const CudaDriver driver = [] {
    CudaDriver fake;
    fake.cuGetErrorName = [](CUresult, const char** name) { return *name = "CUDA_ERROR_FAKE", CUDA_SUCCESS; };
    fake.cuGetErrorString = [](CUresult, const char** text) { return *text = "made up", CUDA_SUCCESS; };
    FakeDevices(&fake);
    FakeStreamsAndEvents(&fake);
    FakeMemory(&fake);
    FakeModules(&fake);
    return fake;
  }();
  return &driver;
}

FakeDriverLog& DriverLog() {
  static FakeDriverLog log;
  return log;
}

std::unique_ptr<Device> OpenFakeDevice() {
  std::unique_ptr<Device> device;
  CHECK_OK(Device::Open(FakeDriver(), 0, &device));
  DriverLog() = {};
  return device;
}

}  // namespace tf_collectives::cuda
