#include "communicators/local_communicator.h"

#include <cstring>

#include "communicators/reduction.h"

namespace tf_collectives {

Status LocalCommunicator::Run(const Batch& batch) {
  for (const Batch::Segment& segment : batch.segments) {
    if (segment.output == nullptr || segment.bytes == 0) continue;
    const bool scaled = segment.prescale_factor != 1.0 || segment.postscale_factor != 1.0;
    if (scaled) {
      FindReduceFunction(batch.dtype,
                         batch.reduce_op)({&segment.input, 1, segment.output, segment.bytes / SizeOf(batch.dtype),
                                           segment.prescale_factor, segment.postscale_factor});
    } else if (segment.output != segment.input) {
      std::memcpy(segment.output, segment.input, segment.bytes);
    }
  }
  return Status::Ok();
}

}  // namespace tf_collectives
