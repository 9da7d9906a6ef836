#pragma once

#include <cuda.h>
#include <nccl.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "testing.h"

// What the tests of the stand-in share. The stand-in reads its settings once and a sticky error never goes, so each
// test runs in a process of its own.

namespace cuda_standin::testing {

using Environment = std::map<std::string, std::string>;

/// How a process ended, and what it wrote on its standard error. A check that failed in it has failed here.
struct Ended {
  /// That of a signal is negative.
  int code = 0;
  std::string errors;
};
Ended RunProcess(const Environment& environment, const std::function<void()>& body);
/// The same for `size` ranks, each with a device of its own; `body` gets its rank.
std::vector<Ended> RunProcesses(int size, const Environment& environment, const std::function<void(int)>& body);

/// Made in a process of its own, so that this one's children can have settings of their own.
ncclUniqueId NewUniqueId();

/// A test whose body runs in a process with these settings.
#define STANDIN_TEST(name, ...)                                                                                       \
  static void name##_body();                                                                                          \
  TEST(name) {                                                                                                        \
    CHECK_EQ(::cuda_standin::testing::RunProcess(::cuda_standin::testing::Environment __VA_ARGS__, name##_body).code, \
             0);                                                                                                      \
  }                                                                                                                   \
  static void name##_body()

#define CHECK_CUDA(call) CHECK_EQ(call, CUDA_SUCCESS)
#define CHECK_NCCL(call) CHECK_EQ(call, ncclSuccess)

/// Makes the device current.
void UseDevice(int ordinal);

CUstream NewStream();

/// `count` values in the memory of the current device.
template <typename Value>
class Array {
 public:
  explicit Array(size_t count) : count_(count) { CHECK_CUDA(cuMemAlloc(&pointer_, count * sizeof(Value))); }
  explicit Array(const std::vector<Value>& values) : Array(values.size()) {
    CHECK_CUDA(cuMemcpyHtoD(pointer_, values.data(), count_ * sizeof(Value)));
  }

  CUdeviceptr address() const { return pointer_; }
  Value* pointer() const { return reinterpret_cast<Value*>(pointer_); }
  size_t count() const { return count_; }
  size_t bytes() const { return count_ * sizeof(Value); }
  std::vector<Value> Read() const {
    std::vector<Value> values(count_);
    CHECK_CUDA(cuMemcpyDtoH(values.data(), pointer_, bytes()));
    return values;
  }
  void Free() { CHECK_CUDA(cuMemFree(pointer_)); }

 private:
  size_t count_;
  CUdeviceptr pointer_ = 0;
};

/// One communicator per thread of `RunRanks`, on the device with the rank's number.
class Ranks {
 public:
  explicit Ranks(int size);
  /// Runs `body` in each rank. Waits at the end for all that it put on its stream, and destroys the communicators
  /// unless the body says that it did.
  struct Rank {
    int rank = 0;
    ncclComm_t comm = nullptr;
    CUstream stream = nullptr;
    bool ended = false;
  };
  void Run(const std::function<void(Rank&)>& body) const;
  const ncclUniqueId& id() const { return id_; }

 private:
  int size_;
  ncclUniqueId id_;
};

/// Polls a communicator until it isn't in progress.
ncclResult_t WaitForState(ncclComm_t comm);

}  // namespace cuda_standin::testing
