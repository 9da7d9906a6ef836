#include "communicators/nccl/nccl_communicator.h"

// Broadcast between GPUs: one ncclBroadcast per tensor, all in one group. Data travels as bytes, so every dtype works.

namespace tf_collectives {

Status NcclCommunicator::Broadcast(const Batch& batch) {
  return Group([&]() -> Status {
    for (const Batch::Segment& segment : batch.segments) {
      if (segment.bytes == 0) continue;
      TFC_NCCL_RETURN_IF_ERROR(nccl_, comm_, ncclBroadcast, segment.input, segment.output, segment.bytes,
                               cuda::ncclUint8, batch.root_rank, comm_, stream());
    }
    return Status::Ok();
  });
}

}  // namespace tf_collectives
