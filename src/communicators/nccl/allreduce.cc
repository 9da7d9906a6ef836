#include <algorithm>

#include "communicators/nccl/nccl_communicator.h"

// All-reduce between GPUs. Small tensors are packed into the fusion buffer by one kernel, which scales them on the way,
// reduced there by one NCCL call, and unpacked by one kernel: each byte is read and written once more in each
// direction, and P ranks start 3 kernels in place of one per tensor. Large tensors are reduced where they are, and
// their calls form one NCCL group.

namespace tf_collectives {
namespace {

cuda::ncclDataType_t NcclType(DataType dtype) {
  switch (dtype) {
    case DataType::kUint8:
      return cuda::ncclUint8;
    case DataType::kInt8:
      return cuda::ncclInt8;
    case DataType::kInt32:
      return cuda::ncclInt32;
    case DataType::kInt64:
      return cuda::ncclInt64;
    case DataType::kFloat16:
      return cuda::ncclFloat16;
    case DataType::kBfloat16:
      return cuda::ncclBfloat16;
    case DataType::kFloat64:
      return cuda::ncclFloat64;
    default:
      return cuda::ncclFloat32;
  }
}

cuda::ncclRedOp_t NcclOperation(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return cuda::ncclSum;
    case ReduceOp::kAverage:
      return cuda::ncclAvg;
    case ReduceOp::kMin:
      return cuda::ncclMin;
    case ReduceOp::kMax:
      return cuda::ncclMax;
    case ReduceOp::kProduct:
      return cuda::ncclProd;
  }
  return cuda::ncclSum;
}

/// Multiplies those tensors whose factor isn't 1, in one launch.
Status ScaleWhereNeeded(cuda::PackKernels* kernels, CUstream stream, DataType dtype,
                        std::vector<cuda::ScaledTensor> tensors) {
  tensors.erase(std::remove_if(tensors.begin(), tensors.end(),
                               [](const cuda::ScaledTensor& tensor) { return tensor.factor == 1.0; }),
                tensors.end());
  return tensors.empty() ? Status::Ok() : kernels->Scale(stream, dtype, tensors);
}

}  // namespace

Status NcclCommunicator::AllReduce(const Batch& batch) {
  std::vector<size_t> large, small;
  for (size_t i = 0; i < batch.segments.size(); ++i) {
    const size_t bytes = batch.segments[i].bytes;
    if (bytes == 0) continue;
    const bool apart = static_cast<int64_t>(bytes) >= options_.pack_limit_bytes || bytes > slab_bytes_;
    (apart ? large : small).push_back(i);
  }
  // One tensor gains nothing from being packed.
  if (small.size() == 1) {
    large.push_back(small.front());
    small.clear();
  }
  if (!large.empty()) TFC_RETURN_IF_ERROR(AllReduceApart(batch, large));
  return AllReducePacked(batch, small);
}

Status NcclCommunicator::AllReduceApart(const Batch& batch, const std::vector<size_t>& segments) {
  const size_t element = SizeOf(batch.dtype);
  std::vector<cuda::ScaledTensor> before, after;
  std::vector<Piece> pieces;
  for (size_t i : segments) {
    const Batch::Segment& segment = batch.segments[i];
    const size_t count = segment.bytes / element;
    before.push_back({segment.input, segment.output, count, segment.prescale_factor});
    after.push_back({segment.output, segment.output, count, segment.postscale_factor});
    pieces.push_back({segment.prescale_factor == 1.0 ? segment.input : segment.output, segment.output, count});
  }
  TFC_RETURN_IF_ERROR(ScaleWhereNeeded(kernels_.get(), stream(), batch.dtype, std::move(before)));
  TFC_RETURN_IF_ERROR(ReducePieces(batch, pieces));
  return ScaleWhereNeeded(kernels_.get(), stream(), batch.dtype, std::move(after));
}

Status NcclCommunicator::AllReducePacked(const Batch& batch, const std::vector<size_t>& segments) {
  const size_t element = SizeOf(batch.dtype);
  // An explicit group may be larger than the buffer and then takes several rounds.
  for (size_t next = 0; next < segments.size();) {
    std::vector<cuda::PackedTensor> before, after;
    size_t used = 0;
    for (; next < segments.size(); ++next) {
      const Batch::Segment& segment = batch.segments[segments[next]];
      if (used + segment.bytes > slab_bytes_) break;
      const size_t count = segment.bytes / element;
      before.push_back({const_cast<void*>(segment.input), count, used, segment.prescale_factor});
      after.push_back({segment.output, count, used, segment.postscale_factor});
      used = cuda::AlignForPacking(used + segment.bytes);
    }
    const size_t bytes = std::min(used, slab_bytes_ / element * element);
    TFC_RETURN_IF_ERROR(kernels_->Pack(stream(), batch.dtype, batch.dtype, before, slab_));
    TFC_RETURN_IF_ERROR(ReducePieces(batch, {{slab_, slab_, bytes / element}}));
    TFC_RETURN_IF_ERROR(kernels_->Unpack(stream(), batch.dtype, batch.dtype, after, slab_));
  }
  return Status::Ok();
}

Status NcclCommunicator::ReducePieces(const Batch& batch, const std::vector<Piece>& pieces) {
  return Group([&]() -> Status {
    for (const Piece& piece : pieces) {
      TFC_NCCL_RETURN_IF_ERROR(nccl_, comm_, ncclAllReduce, piece.send, piece.receive, piece.count,
                               NcclType(batch.dtype), NcclOperation(batch.reduce_op), comm_, stream());
    }
    return Status::Ok();
  });
}

}  // namespace tf_collectives
