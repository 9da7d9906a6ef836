#include "nccl/operation.h"

namespace cuda_standin {

const char* NameOf(Kind kind) {
  static constexpr const char* kNames[] = {"AllReduce", "Reduce", "Broadcast", "AllGather", "ReduceScatter",
                                           "AlltoAll",  "Send",   "Recv",      "CommSplit"};
  return kNames[static_cast<int>(kind)];
}

const char* NameOf(ncclDataType_t dtype) {
  static constexpr const char* kNames[] = {"int8",   "uint8",   "int32",   "uint32",  "int64",
                                           "uint64", "float16", "float32", "float64", "bfloat16"};
  return BytesOf(dtype) == 0 ? "unknown" : kNames[dtype];
}

size_t BytesOf(ncclDataType_t dtype) {
  static constexpr size_t kBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return dtype < 0 || dtype > ncclBfloat16 ? 0 : kBytes[dtype];
}

bool Signature::Agrees(const Signature& other) const {
  return kind == other.kind && dtype == other.dtype && op == other.op && root == other.root && count == other.count &&
         sequence == other.sequence;
}

std::string Signature::ToString() const {
  static constexpr const char* kOps[] = {"sum", "product", "max", "min", "average", "premultiplied sum"};
  std::string text = "operation " + std::to_string(sequence) + " is " + NameOf(kind);
  if (kind == Kind::kSplit) return text;
  text += " of " + std::to_string(count) + " " + NameOf(static_cast<ncclDataType_t>(dtype));
  if (kind == Kind::kAllReduce || kind == Kind::kReduce || kind == Kind::kReduceScatter)
    text += std::string(", ") + kOps[op];
  if (kind == Kind::kReduce || kind == Kind::kBroadcast) text += ", root " + std::to_string(root);
  return text;
}

}  // namespace cuda_standin
