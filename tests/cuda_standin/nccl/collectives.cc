#include "nccl/collectives.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "driver/private_api.h"
#include "nccl/reduction.h"

namespace cuda_standin {
namespace {

using Reason = MeetingPlace::Reason;

// The data goes through the meeting place in pieces: every rank that sends puts one in its buffer, all wait for one
// another, every rank that receives reads, and all wait again before the next piece.
class Exchange {
 public:
  Exchange(Communicator& communicator, const Operation& operation, const char* send, char* receive)
      : communicator_(communicator),
        operation_(operation),
        send_(send),
        receive_(receive),
        element_(BytesOf(operation.dtype)),
        block_(operation.count * element_) {}

  Reason Run() {
    switch (operation_.kind) {
      case Kind::kAllReduce:
        return InPieces([&](size_t at, size_t bytes) { Put(send_ + at, bytes); },
                        [&](size_t at, size_t bytes) { ReduceTo(receive_ + at, bytes); });
      case Kind::kReduce:
        return InPieces([&](size_t at, size_t bytes) { Put(send_ + at, bytes); },
                        [&](size_t at, size_t bytes) {
                          if (IsRoot()) ReduceTo(receive_ + at, bytes);
                        });
      case Kind::kBroadcast:
        return InPieces(
            [&](size_t at, size_t bytes) {
              if (IsRoot()) Put(send_ + at, bytes);
            },
            [&](size_t at, size_t bytes) { Get(operation_.peer, receive_ + at, bytes); });
      case Kind::kAllGather:
        return InPieces([&](size_t at, size_t bytes) { Put(send_ + at, bytes); },
                        [&](size_t at, size_t bytes) {
                          for (int rank = 0; rank < size(); ++rank) Get(rank, receive_ + Block(rank) + at, bytes);
                        });
      case Kind::kReduceScatter:
        return ForEachRank([&](int to) {
          return InPieces([&](size_t at, size_t bytes) { Put(send_ + Block(to) + at, bytes); },
                          [&](size_t at, size_t bytes) {
                            if (to == communicator_.rank) ReduceTo(receive_ + at, bytes);
                          });
        });
      case Kind::kAlltoAll:
        return ForEachRank([&](int to) {
          return InPieces([&](size_t at, size_t bytes) { Put(send_ + Block(to) + at, bytes); },
                          [&](size_t at, size_t bytes) {
                            for (int rank = 0; to == communicator_.rank && rank < size(); ++rank)
                              Get(rank, receive_ + Block(rank) + at, bytes);
                          });
        });
      default:
        return "not a collective";
    }
  }

 private:
  int size() const { return communicator_.size; }
  bool IsRoot() const { return operation_.peer == communicator_.rank; }
  size_t Block(int rank) const { return block_ * static_cast<size_t>(rank); }

  template <typename Put, typename Get>
  Reason InPieces(const Put& put, const Get& get) {
    for (size_t at = 0; at < block_; at += MeetingPlace::kBufferBytes) {
      const size_t bytes = std::min(MeetingPlace::kBufferBytes, block_ - at);
      put(at, bytes);
      if (Reason reason = communicator_.Barrier(); !reason.empty()) return reason;
      get(at, bytes);
      if (Reason reason = communicator_.Barrier(); !reason.empty()) return reason;
    }
    return {};
  }

  template <typename Run>
  Reason ForEachRank(const Run& run) {
    for (int rank = 0; rank < size(); ++rank)
      if (Reason reason = run(rank); !reason.empty()) return reason;
    return {};
  }

  void Put(const char* from, size_t bytes) {
    char* buffer = communicator_.place().buffer(communicator_.rank);
    if (operation_.reduction.op >= kFirstCustomReduction)
      Multiply(from, buffer, bytes / element_, operation_.dtype, operation_.reduction.scalar);
    else
      std::memcpy(buffer, from, bytes);
  }
  void Get(int rank, char* to, size_t bytes) { std::memcpy(to, communicator_.place().buffer(rank), bytes); }
  void ReduceTo(char* to, size_t bytes) {
    std::vector<const char*> inputs;
    for (int rank = 0; rank < size(); ++rank) inputs.push_back(communicator_.place().buffer(rank));
    const ncclRedOp_t op = operation_.reduction.op >= kFirstCustomReduction ? ncclSum : operation_.reduction.op;
    Reduce(inputs, to, bytes / element_, operation_.dtype, op);
  }

  Communicator& communicator_;
  const Operation& operation_;
  const char* const send_;
  char* const receive_;
  const size_t element_;
  const size_t block_;
};

}  // namespace

size_t SendBytes(const Communicator& communicator, const Operation& operation) {
  const size_t block = operation.count * BytesOf(operation.dtype);
  switch (operation.kind) {
    case Kind::kBroadcast:
      return operation.peer == communicator.rank ? block : 0;
    case Kind::kReduceScatter:
    case Kind::kAlltoAll:
      return block * static_cast<size_t>(communicator.size);
    case Kind::kReceive:
      return 0;
    default:
      return block;
  }
}

size_t ReceiveBytes(const Communicator& communicator, const Operation& operation) {
  const size_t block = operation.count * BytesOf(operation.dtype);
  switch (operation.kind) {
    case Kind::kReduce:
      return operation.peer == communicator.rank ? block : 0;
    case Kind::kAllGather:
    case Kind::kAlltoAll:
      return block * static_cast<size_t>(communicator.size);
    case Kind::kSend:
      return 0;
    default:
      return block;
  }
}

Reason RunCollective(Communicator& communicator, const Operation& operation, const Signature& signature) {
  if (Reason reason = communicator.Agree(signature); !reason.empty()) return reason;
  const std::string user = std::string("nccl") + NameOf(operation.kind);
  const auto view = [&](const void* pointer, size_t bytes) {
    return bytes == 0 ? nullptr : static_cast<char*>(ViewForUser(pointer, bytes, user));
  };
  const size_t send_bytes = SendBytes(communicator, operation);
  const size_t receive_bytes = ReceiveBytes(communicator, operation);
  const char* send = view(operation.send, send_bytes);
  char* receive = view(operation.receive, receive_bytes);
  if ((send_bytes > 0 && send == nullptr) || (receive_bytes > 0 && receive == nullptr)) {
    communicator.place().Report(user + " of rank " + std::to_string(communicator.rank) +
                                " was given memory that was freed before it ran");
    return communicator.place().Reported();
  }
  return Exchange(communicator, operation, send, receive).Run();
}

}  // namespace cuda_standin
