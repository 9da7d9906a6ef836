#include "nccl/launch_order.h"

#include <map>
#include <mutex>

namespace cuda_standin {
namespace {

std::mutex& Mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

// By device and communicator.
std::map<std::pair<int, uint64_t>, uint64_t>& Launched() {
  static auto* launched = new std::map<std::pair<int, uint64_t>, uint64_t>;
  return *launched;
}

}  // namespace

void NoteCommunicator(int device, uint64_t communicator) {
  const std::lock_guard<std::mutex> lock(Mutex());
  Launched().emplace(std::pair(device, communicator), 0);
}

void ForgetCommunicator(int device, uint64_t communicator) {
  const std::lock_guard<std::mutex> lock(Mutex());
  Launched().erase({device, communicator});
}

void NoteLaunch(int device, uint64_t communicator, Signature* signature) {
  const std::lock_guard<std::mutex> lock(Mutex());
  for (const auto& [key, launched] : Launched()) {
    if (key.first != device || key.second == communicator) continue;
    if (signature->communicators == Signature::kMostCommunicators) break;
    signature->launched[signature->communicators++] = {key.second, launched};
  }
  ++Launched()[{device, communicator}];
}

std::string CompareLaunchOrder(const Signature& mine, const Signature& other, int other_rank) {
  for (int a = 0; a < mine.communicators; ++a)
    for (int b = 0; b < other.communicators; ++b)
      if (mine.launched[a].communicator == other.launched[b].communicator &&
          mine.launched[a].launched != other.launched[b].launched)
        return "ranks launch on two communicators in different orders: before " + mine.ToString() +
               ", this rank had launched " + std::to_string(mine.launched[a].launched) +
               " operations on another communicator of theirs, and rank " + std::to_string(other_rank) + " " +
               std::to_string(other.launched[b].launched);
  return {};
}

}  // namespace cuda_standin
