#include "nccl/point_to_point.h"

#include <unistd.h>

#include <cstring>
#include <set>
#include <utility>

#include "driver/private_api.h"

namespace cuda_standin {
namespace {

using Reason = MeetingPlace::Reason;

/// Precedes the data of a message, so that both sides can be compared.
struct Envelope {
  uint64_t count = 0;
  int dtype = 0;
};

std::string Describe(const Envelope& envelope) {
  return std::to_string(envelope.count) + " " + NameOf(static_cast<ncclDataType_t>(envelope.dtype));
}

class Transfer {
 public:
  Transfer(Communicator& communicator, const Operation& operation)
      : is_send_(operation.kind == Kind::kSend),
        rank_(communicator.rank),
        peer_(operation.peer),
        bytes_(operation.count * BytesOf(operation.dtype)),
        mine_{operation.count, operation.dtype},
        ring_(is_send_ ? communicator.place().ring(rank_, peer_) : communicator.place().ring(peer_, rank_)) {
    const void* pointer = is_send_ ? operation.send : operation.receive;
    if (bytes_ > 0) data_ = static_cast<char*>(ViewForUser(pointer, bytes_, is_send_ ? "ncclSend" : "ncclRecv"));
  }

  bool is_send() const { return is_send_; }
  int peer() const { return peer_; }
  bool IsOver() const { return envelope_done_ == sizeof(Envelope) && done_ == bytes_; }
  bool HasMemory() const { return bytes_ == 0 || data_ != nullptr; }

  /// Returns whether anything moved.
  bool Advance(Reason* reason) {
    size_t moved = 0;
    if (envelope_done_ < sizeof(Envelope)) {
      moved = Move(reinterpret_cast<char*>(is_send_ ? &mine_ : &theirs_), envelope_done_, sizeof(Envelope));
      envelope_done_ += moved;
      if (envelope_done_ < sizeof(Envelope)) return moved > 0;
      if (!is_send_ && (theirs_.count != mine_.count || theirs_.dtype != mine_.dtype)) {
        *reason = "rank " + std::to_string(peer_) + " sends " + Describe(theirs_) + " to rank " +
                  std::to_string(rank_) + ", which wants to receive " + Describe(mine_);
        return false;
      }
    }
    const size_t more = Move(data_, done_, bytes_);
    done_ += more;
    return moved + more > 0;
  }

 private:
  size_t Move(char* data, size_t done, size_t bytes) {
    if (done == bytes) return 0;
    return is_send_ ? ring_.Write(data + done, bytes - done) : ring_.Read(data + done, bytes - done);
  }

  const bool is_send_;
  const int rank_;
  const int peer_;
  const size_t bytes_;
  Envelope mine_;
  Envelope theirs_;
  Ring& ring_;
  char* data_ = nullptr;
  size_t envelope_done_ = 0;
  size_t done_ = 0;
};

// One transfer per peer and direction at a time, in the order of the calls.
bool AdvanceAll(std::vector<Transfer>& transfers, Reason* reason) {
  bool moved = false;
  std::set<std::pair<bool, int>> busy;
  for (Transfer& transfer : transfers) {
    if (transfer.IsOver() || !busy.emplace(transfer.is_send(), transfer.peer()).second) continue;
    moved = transfer.Advance(reason) || moved;
    if (!reason->empty()) return false;
  }
  return moved;
}

}  // namespace

Reason RunPointToPoint(Communicator& communicator, const std::vector<Operation>& operations) {
  std::vector<Transfer> transfers;
  for (const Operation& operation : operations) transfers.emplace_back(communicator, operation);
  Reason reason;
  for (const Transfer& transfer : transfers)
    if (!transfer.HasMemory()) reason = "a send or a receive was given memory that was freed before it ran";

  auto deadline = NcclDeadline();
  const auto is_over = [](const Transfer& transfer) { return transfer.IsOver(); };
  while (reason.empty() && !std::all_of(transfers.begin(), transfers.end(), is_over)) {
    if (communicator.is_aborted()) return "the communicator was aborted";
    if (Reason reported = communicator.place().Reported(); !reported.empty()) return reported;
    if (AdvanceAll(transfers, &reason)) {
      deadline = NcclDeadline();
    } else if (reason.empty()) {
      if (std::chrono::steady_clock::now() > deadline)
        reason = "rank " + std::to_string(communicator.rank) + " waited in vain in a send or a receive";
      usleep(50);
    }
  }
  if (!reason.empty()) communicator.place().Report(reason);
  return reason;
}

}  // namespace cuda_standin
