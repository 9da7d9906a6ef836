#include <algorithm>

#include "communicators/nccl/nccl_communicator.h"

// All-gather between GPUs. Tensors to which all ranks contribute equally are gathered by ncclAllGather; for the others
// each rank broadcasts its part into its place. All calls of a batch form one NCCL group. Data travels as bytes, so
// every dtype works.

namespace tf_collectives {

Status NcclCommunicator::AllGather(const Batch& batch) {
  for (const Batch::Segment& segment : batch.segments) {
    const bool empty =
        std::all_of(segment.rank_bytes.begin(), segment.rank_bytes.end(), [](size_t bytes) { return bytes == 0; });
    if (segment.output == nullptr && !empty) {
      return {StatusCode::kResourceExhausted,
              "there was no GPU memory for the result of an all-gather, and NCCL can't take part without. "
              "Gather less at once, or free memory."};
    }
  }
  return Group([&]() -> Status {
    for (const Batch::Segment& segment : batch.segments) {
      const std::vector<size_t>& sizes = segment.rank_bytes;
      char* place = static_cast<char*>(segment.output);
      if (std::all_of(sizes.begin(), sizes.end(), [&](size_t bytes) { return bytes == sizes.front(); })) {
        if (sizes.front() == 0) continue;
        TFC_NCCL_RETURN_IF_ERROR(nccl_, comm_, ncclAllGather, segment.input, place, sizes.front(), cuda::ncclUint8,
                                 comm_, stream());
        continue;
      }
      for (size_t root = 0; root < sizes.size(); place += sizes[root], ++root) {
        if (sizes[root] == 0) continue;
        const void* send = static_cast<int>(root) == options_.rank ? segment.input : place;
        TFC_NCCL_RETURN_IF_ERROR(nccl_, comm_, ncclBroadcast, send, place, sizes[root], cuda::ncclUint8,
                                 static_cast<int>(root), comm_, stream());
      }
    }
    return Status::Ok();
  });
}

}  // namespace tf_collectives
