#include "runtime/log.h"

#include <unistd.h>

#include <array>
#include <atomic>

#include "text.h"

namespace tf_collectives {
namespace {

constexpr std::array<const char*, 4> kNames = {"debug", "info", "warning", "error"};

std::atomic<LogLevel> least_level_of_process{LogLevel::kWarning};
std::atomic<int> rank_of_process{0};

}  // namespace

void Log(LogLevel level, const std::string& text) {
  if (level < least_level_of_process.load()) return;
  const std::string line =
      Concat("[tf_collectives rank ", rank_of_process.load(), "] ", kNames[static_cast<int>(level)], ": ", text, "\n");
  // One write, so that lines of several processes don't mix.
  if (write(STDERR_FILENO, line.data(), line.size()) < 0) return;
}

void ConfigureLog(const std::string& least_level, int rank) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (least_level == kNames[i]) least_level_of_process = static_cast<LogLevel>(i);
  }
  rank_of_process = rank;
}

}  // namespace tf_collectives
