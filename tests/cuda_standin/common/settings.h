#pragma once

#include <string>
#include <vector>

#include "common/export.h"

namespace cuda_standin {

/// The environment variables CUDA_STANDIN_..., read once. README.md describes them for those who write tests.
struct Settings {
  int devices = 2;
  size_t device_bytes = size_t{4096} << 20;
  int compute_capability = 80;
  int jitter_microseconds = 0;
  bool abort_on_foreign_kernel = false;
  std::vector<std::string> kernel_libraries;
  std::string log_path;
  std::string faults;
  int rank = -1;
  double nccl_timeout_seconds = 120;
  int nccl_init_delay_milliseconds = 0;
  int nccl_launch_delay_milliseconds = 0;
  int nccl_version = 22707;
  std::string nccl_directory;
};

STANDIN_EXPORT const Settings& GetSettings();

/// Prints a line of ours on the standard error.
STANDIN_EXPORT void Complain(const std::string& text);
/// The same, and ends the process: for a stand-in that is set up wrongly.
[[noreturn]] STANDIN_EXPORT void Die(const std::string& text);

}  // namespace cuda_standin
