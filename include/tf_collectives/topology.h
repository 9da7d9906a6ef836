#pragma once

namespace tf_collectives {

/// Where this process stands among the processes of the job.
struct Topology {
  int rank = 0;
  int size = 1;
  /// Among the processes of this machine.
  int local_rank = 0;
  int local_size = 1;
  /// Among the processes that have the same local rank, one per machine.
  int cross_rank = 0;
  int cross_size = 1;
};

}  // namespace tf_collectives
