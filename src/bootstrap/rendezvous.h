#pragma once

#include <string>
#include <vector>

#include "shared_memory/board.h"
#include "shared_memory/segment.h"
#include "tf_collectives/environment.h"

namespace tf_collectives {

/// A connection to another rank that says nothing after the start: its end is the news that the rank has ended.
struct Peer {
  int rank = 0;
  int pid = 0;
  FileDescriptor socket;
  /// Becomes readable when the process ends, also while a forked child of it holds the socket open. May be invalid.
  FileDescriptor process;
};

/// What a rank holds when all have met: the shared segment, and a peer for each rank (on rank 0) or for rank 0
/// (elsewhere).
struct Meeting {
  Segment segment;
  BoardLayout layout;
  std::vector<Peer> peers;
};

/// Brings the ranks of one machine together at an abstract Unix socket named after the job, which leaves no file
/// behind. Rank 0 makes the segment and passes its descriptor to each rank; that a descriptor really arrives is what
/// "same machine" means here. `generation` counts the meetings of this process, so that a rank can leave and join
/// again. Every rank returns the same error if one of them doesn't come in time or doesn't fit.
Status Meet(const Environment& environment, int generation, Meeting* meeting);

}  // namespace tf_collectives
