#include "common/call_log.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cuda_standin {
namespace {

int Descriptor() {
  static const int descriptor = [] {
    const std::string& path = GetSettings().log_path;
    const int opened = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (opened < 0) Die("can't open CUDA_STANDIN_LOG=" + path);
    return opened;
  }();
  return descriptor;
}

// Whoever waits for something asks for it thousands of times.
bool IsPoll(const std::string& call) {
  return call == "cuEventQuery" || call == "cuStreamQuery" || call == "ncclCommGetAsyncError";
}

}  // namespace

std::string QuotedForLog(const std::string& text) {
  std::string quoted = "\"";
  for (const char character : text) {
    if (character == '"' || character == '\\') quoted += '\\';
    quoted += character < ' ' ? ' ' : character;
  }
  return quoted + "\"";
}

// One write per line, so that the lines of several ranks in one file stay whole.
void LogCall(const std::string& call, const std::string& fields) {
  if (!IsLogging() || IsPoll(call)) return;
  const std::string line =
      "{\"process\": " + std::to_string(getpid()) + ", \"thread\": " + std::to_string(syscall(SYS_gettid)) +
      ", \"rank\": " + std::to_string(GetSettings().rank) + ", \"call\": " + QuotedForLog(call) + fields + "}\n";
  if (write(Descriptor(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    Die("can't write to CUDA_STANDIN_LOG");
}

}  // namespace cuda_standin
