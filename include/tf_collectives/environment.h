#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tf_collectives/export.h"
#include "tf_collectives/status.h"
#include "tf_collectives/topology.h"

namespace tf_collectives {

/// Every environment variable that tf_collectives reads; nothing else calls getenv.
/// The reference page and `tfcrun --help` are made from Describe().
struct TFC_EXPORT Environment {
  struct Variable {
    std::string name;
    std::string type;
    std::string default_value;
    std::string meaning;
    /// "launch" (set by the launcher), "fusion", "failures", "logging" or "tuning".
    std::string group;
  };

  Topology topology;
  std::string job_id;
  int64_t fusion_threshold = int64_t{128} << 20;
  int64_t cache_capacity = 1024;
  double stall_warning_seconds = 60;
  double timeout_seconds = 600;
  double start_timeout_seconds = 120;
  std::string log_level = "warning";
  int64_t chunk_bytes = int64_t{128} << 10;
  int64_t spin_microseconds = 50;
  int64_t pack_limit_bytes = int64_t{4} << 20;
  bool deterministic = false;
  bool ranks_share_gpu = false;
  int64_t output_cache_bytes = int64_t{1} << 30;

  /// Reads and checks the variables; the error names the variable, its value and what is allowed.
  static Status FromProcess(Environment* environment);
  static std::vector<Variable> Describe();
};

}  // namespace tf_collectives
