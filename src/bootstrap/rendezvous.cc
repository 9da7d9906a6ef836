#include "bootstrap/rendezvous.h"

#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <thread>

#include "bootstrap/unix_socket.h"
#include "text.h"
#include "wire.h"

namespace tf_collectives {
namespace {

constexpr uint32_t kProtocol = 1;
constexpr uint64_t kRingBytes = 256 << 10;
constexpr uint32_t kSlots = 4;
constexpr char kAccept = 'A';
constexpr char kRefuse = 'R';

struct Hello {
  uint32_t protocol = kProtocol;
  int32_t rank = 0;
  int32_t size = 0;
};

Deadline StartDeadline(const Environment& environment) {
  return Clock::now() + std::chrono::milliseconds(std::llround(environment.start_timeout_seconds * 1000));
}

Status SystemError(const std::string& what, int error) {
  return {StatusCode::kUnavailable, Concat("init(): ", what, ": ", std::strerror(-error), ".")};
}

Status CheckHello(const Environment& environment, const Hello& hello, const std::vector<Peer>& present) {
  const char* advice = " Start all ranks with one tfcrun, in one environment.";
  if (hello.protocol != kProtocol) {
    return {StatusCode::kFailedPrecondition,
            Concat("init(): rank ", hello.rank, " runs another version of tf_collectives.", advice)};
  }
  if (hello.size != environment.topology.size || hello.rank <= 0 || hello.rank >= hello.size) {
    return {StatusCode::kFailedPrecondition,
            Concat("init(): rank 0 expects ", environment.topology.size, " ranks, but a process came as rank ",
                   hello.rank, " of ", hello.size, ".", advice)};
  }
  for (const Peer& peer : present) {
    if (peer.rank == hello.rank) {
      return {StatusCode::kFailedPrecondition, Concat("init(): two processes came as rank ", hello.rank, ".", advice)};
    }
  }
  return Status::Ok();
}

Status MissingRanks(const Environment& environment, const std::vector<Peer>& present) {
  std::vector<bool> here(environment.topology.size, false);
  here[0] = true;
  for (const Peer& peer : present) here[peer.rank] = true;
  std::vector<int> missing;
  for (int rank = 0; rank < environment.topology.size; ++rank) {
    if (!here[rank]) missing.push_back(rank);
  }
  return {
      StatusCode::kDeadlineExceeded,
      Concat(
          "init(): ", RankList(missing), " of ", environment.topology.size, " did not call init() within ",
          environment.start_timeout_seconds,
          " s. See whether they still import, wait or failed; raise TFC_START_TIMEOUT_SECONDS if they need longer.")};
}

/// Rank 0: takes in one process. A stranger (another user, or one that says nothing) is turned away without an error.
Status AdmitOne(const Environment& environment, const FileDescriptor& listener, const Deadline& deadline,
                std::vector<Peer>* peers) {
  Peer peer;
  int error = AcceptUntil(listener, deadline, &peer.socket);
  if (error == -ETIMEDOUT) return MissingRanks(environment, *peers);
  if (error != 0) return SystemError("accepting a rank failed", error);
  peer.pid = PeerProcess(peer.socket);
  std::string message;
  if (peer.pid < 0 || ReceiveMessage(peer.socket, deadline, &message) != 0 || message.size() != sizeof(Hello))
    return Status::Ok();
  WireReader reader(message);
  const Hello hello = reader.Get<Hello>();
  peer.rank = hello.rank;
  peer.process = OpenProcess(peer.pid);
  const Status status = CheckHello(environment, hello, *peers);
  peers->push_back(std::move(peer));
  return status;
}

Status Host(const Environment& environment, const std::string& name, Meeting* meeting) {
  FileDescriptor listener;
  int error = ListenAbstract(name, environment.topology.size, &listener);
  if (error != 0)
    return SystemError("rank 0 cannot listen for the others (is a rank 0 of this job running already?)", error);
  const Deadline deadline = StartDeadline(environment);
  Status status;
  while (status.ok() && meeting->peers.size() + 1 < static_cast<size_t>(environment.topology.size)) {
    status = AdmitOne(environment, listener, deadline, &meeting->peers);
  }
  meeting->layout = {static_cast<uint32_t>(environment.topology.size), kSlots,
                     static_cast<uint64_t>(environment.chunk_bytes), kRingBytes};
  FileDescriptor memory;
  if (status.ok()) status = Segment::Create(meeting->layout.TotalBytes(), &meeting->segment, &memory);
  if (status.ok()) Board(meeting->segment.data(), meeting->layout).Format();

  WireWriter writer;
  writer.Put(status.ok() ? kAccept : kRefuse);
  if (status.ok()) {
    writer.Put(meeting->layout);
  } else {
    writer.Put(status.code());
    writer.PutRest(status.message());
  }
  const std::string answer = writer.Take();
  for (const Peer& peer : meeting->peers) {
    error = SendMessage(peer.socket, answer, memory.get());
    if (error != 0 && status.ok()) status = SystemError(Concat("rank ", peer.rank, " ended during init()"), error);
  }
  return status;
}

Status Join(const Environment& environment, const std::string& name, Meeting* meeting) {
  const Deadline deadline = StartDeadline(environment);
  Peer host;
  int error;
  // Rank 0 may not listen yet. Nothing signals that it does, so this retries; only init() ever does so.
  while ((error = ConnectAbstract(name, &host.socket)) == -ECONNREFUSED || error == -EAGAIN) {
    if (Clock::now() > *deadline) {
      return {StatusCode::kDeadlineExceeded,
              Concat("init(): rank 0 did not call init() within ", environment.start_timeout_seconds,
                     " s. See whether it still imports, waits or failed; raise TFC_START_TIMEOUT_SECONDS if it needs "
                     "longer.")};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  if (error != 0) return SystemError("cannot reach rank 0", error);
  host.pid = PeerProcess(host.socket);
  if (host.pid < 0)
    return {StatusCode::kFailedPrecondition,
            "init(): rank 0 of this job belongs to another user. Start all ranks with one tfcrun."};
  host.process = OpenProcess(host.pid);

  WireWriter writer;
  writer.Put(Hello{kProtocol, environment.topology.rank, environment.topology.size});
  error = SendMessage(host.socket, writer.Take());
  std::string answer;
  FileDescriptor memory;
  if (error == 0) {
    // Rank 0 gives the verdict at its own deadline; a little longer here, so that its text, which names the missing
    // ranks, wins.
    error = ReceiveMessage(host.socket, *deadline + std::chrono::seconds(5), &answer, &memory);
  }
  if (error != 0) return SystemError("rank 0 ended or went silent while the ranks met", error);
  WireReader reader(answer);
  if (reader.Get<char>() == kRefuse) {
    const auto code = reader.Get<StatusCode>();
    return {code, reader.GetRest()};
  }
  meeting->layout = reader.Get<BoardLayout>();
  if (!memory.valid()) {
    return {StatusCode::kFailedPrecondition,
            "init(): rank 0 could not pass its shared memory on. Is it on another machine or in another sandbox?"};
  }
  meeting->peers.push_back(std::move(host));
  return Segment::Map(memory, meeting->layout.TotalBytes(), &meeting->segment);
}

}  // namespace

Status Meet(const Environment& environment, int generation, Meeting* meeting) {
  const std::string name = Concat("tf_collectives-", environment.job_id, "-", generation);
  return environment.topology.rank == 0 ? Host(environment, name, meeting) : Join(environment, name, meeting);
}

}  // namespace tf_collectives
