#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cuda/device.h"
#include "cuda/driver.h"

namespace tf_collectives::cuda {

/// What the fake driver was asked for.
struct FakeDriverLog {
  std::vector<std::string> launches;
  int uploads = 0;
  int events_created = 0;
  int event_waits = 0;
  int allocations = 0;
  int contexts_pushed = 0;
  int contexts_popped = 0;
  int contexts_released = 0;
  /// What is allocated or created and not yet gone.
  int alive = 0;
  /// What the next call of a function that can fail returns instead.
  CUresult next_error = CUDA_SUCCESS;
};

/// A driver without a GPU, for tests of the code around it: memory is the host's, streams run everything at once, and
/// kernels are their host versions. There is one device, of compute capability 8.6.
const CudaDriver* FakeDriver();
/// Of all threads; only one test runs at a time.
FakeDriverLog& DriverLog();
/// The device of the fake driver, with the log made empty afterwards.
std::unique_ptr<Device> OpenFakeDevice();

}  // namespace tf_collectives::cuda
