#pragma once

#include <cuda.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "driver/memory.h"
#include "driver/streams.h"

namespace cuda_standin {

struct Device {
  Device(int ordinal_, int physical_, size_t bytes);

  const int ordinal;
  /// Its number on the machine, whatever CUDA_VISIBLE_DEVICES says.
  const int physical;
  DeviceMemory memory;
  const std::shared_ptr<Stream> default_stream;
  std::atomic<int> primary_context_users{0};

  std::string PciBusId() const;
  /// The only context of a device is its primary one.
  CUcontext Context() { return reinterpret_cast<CUcontext>(this); }
};

const std::vector<std::unique_ptr<Device>>& Devices();
/// Null where there is none.
Device* DeviceAt(int ordinal);
Device* DeviceOf(CUcontext context);
/// The device that owns the memory at this address, or null.
Device* DeviceOwning(CUdeviceptr pointer);

/// -1 where the thread has no current context.
int CurrentDevice();
void SetCurrentDevice(int ordinal);
void PushCurrentDevice(int ordinal);
/// Returns false where the stack is empty.
bool PopCurrentDevice();

}  // namespace cuda_standin
