#include "communicators/communicator.h"

namespace tf_collectives {

size_t Batch::TotalBytes() const {
  size_t total = 0;
  for (const Segment& segment : segments) total += segment.bytes;
  return total;
}

}  // namespace tf_collectives
