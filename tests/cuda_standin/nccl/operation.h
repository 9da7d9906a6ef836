#pragma once

#include <nccl.h>

#include <cstdint>
#include <string>

namespace cuda_standin {

enum class Kind : int {
  kAllReduce,
  kReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kAlltoAll,
  kSend,
  kReceive,
  kSplit,
};

inline bool IsPointToPoint(Kind kind) { return kind == Kind::kSend || kind == Kind::kReceive; }

const char* NameOf(Kind kind);
const char* NameOf(ncclDataType_t dtype);
/// 0 for what isn't a type, or one that the stand-in can't reduce.
size_t BytesOf(ncclDataType_t dtype);

/// How values are combined. A PreMulSum has its scalar with it, since its handle may be destroyed right after the call.
struct Reduction {
  ncclRedOp_t op = ncclSum;
  double scalar = 1.0;
};
/// PreMulSum's handles are these and above.
constexpr int kFirstCustomReduction = ncclNumOps;

/// One call of a collective, a send or a receive.
struct Operation {
  Kind kind = Kind::kAllReduce;
  const void* send = nullptr;
  void* receive = nullptr;
  /// As the call gave it, and so per rank for all but AllReduce, Reduce and Broadcast.
  size_t count = 0;
  ncclDataType_t dtype = ncclFloat32;
  Reduction reduction;
  /// The root, or the other side of a send or a receive.
  int peer = 0;
};

/// How many operations this rank's device had been given on a communicator.
struct LaunchCount {
  uint64_t communicator = 0;
  uint64_t launched = 0;
};

/// What all ranks must agree on, as each publishes it.
struct Signature {
  Kind kind = Kind::kAllReduce;
  int dtype = 0;
  int op = 0;
  int root = 0;
  uint64_t count = 0;
  uint64_t sequence = 0;
  /// Of ncclCommSplit, where they may differ.
  int color = 0;
  int key = 0;

  static constexpr int kMostCommunicators = 16;
  int communicators = 0;
  LaunchCount launched[kMostCommunicators];

  bool Agrees(const Signature& other) const;
  std::string ToString() const;
};

}  // namespace cuda_standin
