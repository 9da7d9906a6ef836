#include "nccl/last_error.h"

#include <mutex>

#include "common/settings.h"

namespace cuda_standin {
namespace {

std::mutex& Mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

std::string& Text() {
  static auto* text = new std::string;
  return *text;
}

}  // namespace

ncclResult_t Fail(ncclResult_t result, const std::string& text) {
  Complain("NCCL: " + text);
  const std::lock_guard<std::mutex> lock(Mutex());
  Text() = text;
  return result;
}

const char* LastErrorText() {
  thread_local std::string copy;
  const std::lock_guard<std::mutex> lock(Mutex());
  copy = Text();
  return copy.c_str();
}

}  // namespace cuda_standin
