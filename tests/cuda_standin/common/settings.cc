#include "common/settings.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace cuda_standin {
namespace {

std::string Text(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

double Number(const char* name, double otherwise, double least) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return otherwise;
  char* end = nullptr;
  const double number = std::strtod(value, &end);
  if (*end != '\0' || number < least)
    Die(std::string(name) + "=" + value + " is not a number of at least " + std::to_string(least));
  return number;
}

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);)
    if (!part.empty()) parts.push_back(part);
  return parts;
}

bool AbortOnForeignKernel() {
  const std::string mode = Text("CUDA_STANDIN_FOREIGN_KERNELS", "sticky");
  if (mode != "sticky" && mode != "abort") Die("CUDA_STANDIN_FOREIGN_KERNELS=" + mode + " is neither sticky nor abort");
  return mode == "abort";
}

Settings Read() {
  Settings settings;
  settings.devices = static_cast<int>(Number("CUDA_STANDIN_DEVICES", settings.devices, 0));
  settings.device_bytes = static_cast<size_t>(Number("CUDA_STANDIN_MEMORY_MB", 4096, 1)) << 20;
  settings.compute_capability = static_cast<int>(10 * Number("CUDA_STANDIN_COMPUTE_CAPABILITY", 8.0, 1) + 0.5);
  settings.jitter_microseconds = static_cast<int>(Number("CUDA_STANDIN_JITTER_US", 0, 0));
  settings.abort_on_foreign_kernel = AbortOnForeignKernel();
  settings.kernel_libraries = Split(Text("CUDA_STANDIN_KERNELS", ""), ':');
  settings.log_path = Text("CUDA_STANDIN_LOG", "");
  settings.faults = Text("CUDA_STANDIN_FAULTS", "");
  settings.rank = static_cast<int>(Number("TFC_RANK", -1, -1));
  settings.nccl_timeout_seconds = Number("CUDA_STANDIN_NCCL_TIMEOUT", settings.nccl_timeout_seconds, 0);
  settings.nccl_init_delay_milliseconds = static_cast<int>(Number("CUDA_STANDIN_NCCL_INIT_DELAY_MS", 0, 0));
  settings.nccl_launch_delay_milliseconds = static_cast<int>(Number("CUDA_STANDIN_NCCL_LAUNCH_DELAY_MS", 0, 0));
  settings.nccl_version = static_cast<int>(Number("CUDA_STANDIN_NCCL_VERSION", settings.nccl_version, 1));
  settings.nccl_directory = Text("CUDA_STANDIN_NCCL_DIRECTORY", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
  return settings;
}

}  // namespace

// Never destroyed, here and elsewhere: threads of streams go on running while the process ends.
const Settings& GetSettings() {
  static const Settings* settings = new Settings(Read());
  return *settings;
}

void Complain(const std::string& text) {
  const std::string line = "[cuda stand-in, process " + std::to_string(getpid()) + "] " + text + "\n";
  std::fputs(line.c_str(), stderr);
}

void Die(const std::string& text) {
  Complain(text);
  std::abort();
}

}  // namespace cuda_standin
