// The communicators that the program holds, looked up so that one that was destroyed is noticed.

#include <utility>

#include "nccl/communicator.h"

namespace cuda_standin {
namespace {

std::mutex& Mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

std::map<ncclComm_t, std::shared_ptr<Communicator>>& Communicators() {
  static auto* communicators = new std::map<ncclComm_t, std::shared_ptr<Communicator>>;
  return *communicators;
}

}  // namespace

std::shared_ptr<Communicator> FindCommunicator(ncclComm_t handle) {
  const std::lock_guard<std::mutex> lock(Mutex());
  const auto found = Communicators().find(handle);
  return found == Communicators().end() ? nullptr : found->second;
}

ncclComm_t AddCommunicator(std::shared_ptr<Communicator> communicator) {
  const std::lock_guard<std::mutex> lock(Mutex());
  const auto handle = reinterpret_cast<ncclComm_t>(communicator.get());
  Communicators()[handle] = std::move(communicator);
  return handle;
}

void RemoveCommunicator(ncclComm_t handle) {
  std::shared_ptr<Communicator> removed;
  const std::lock_guard<std::mutex> lock(Mutex());
  const auto found = Communicators().find(handle);
  if (found == Communicators().end()) return;
  removed = std::move(found->second);
  Communicators().erase(found);
}

}  // namespace cuda_standin
