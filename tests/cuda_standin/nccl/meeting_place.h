#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "nccl/operation.h"

namespace cuda_standin {

/// A queue of bytes from one rank to another.
struct Ring {
  static constexpr size_t kBytes = size_t{1} << 16;
  alignas(64) std::atomic<uint64_t> written;
  alignas(64) std::atomic<uint64_t> read;
  char data[kBytes];

  size_t Write(const char* from, size_t bytes);
  size_t Read(char* to, size_t bytes);
};

/// A file in shared memory where the ranks of one communicator meet. Whoever waits gives up when asked to, when a rank
/// has reported a failure, or after NCCL's timeout.
class MeetingPlace {
 public:
  static constexpr size_t kBufferBytes = size_t{1} << 20;

  /// Why a wait ended; empty where it ended well.
  using Reason = std::string;
  /// Gives a reason to stop waiting.
  using Interruption = std::function<bool()>;

  ~MeetingPlace();

  /// Waits for all ranks. `reason` says why nothing is returned.
  static std::unique_ptr<MeetingPlace> Join(const std::string& path, int rank, int size, int physical_device,
                                            const Interruption& interruption, Reason* reason);

  Reason Barrier(const Interruption& interruption);
  /// Tells all ranks that this one can't go on. The first text counts.
  void Report(const std::string& text);
  /// What a rank has reported.
  Reason Reported() const;

  Signature& signature(int rank);
  char* buffer(int rank);
  Ring& ring(int from, int to);
  /// Another rank on the same GPU, or -1.
  int RankOnSameDevice() const;

 private:
  struct Header;
  struct Slot;

  MeetingPlace(int rank, int size) : rank_(rank), size_(size) {}
  Reason Map(const std::string& path);
  Reason Enter(int physical_device);
  Reason WaitUntil(const std::function<bool()>& condition, const Interruption& interruption, const char* what);
  Slot& slot(int rank) const;

  const int rank_;
  const int size_;
  size_t bytes_ = 0;
  Header* header_ = nullptr;
  Slot* slots_ = nullptr;
  char* buffers_ = nullptr;
  Ring* rings_ = nullptr;
};

/// The end of waiting that begins now.
std::chrono::steady_clock::time_point NcclDeadline();

}  // namespace cuda_standin
