#include "support.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

namespace cuda_standin::testing {
namespace {

struct Process {
  pid_t pid = 0;
  int errors = -1;
};

Process Start(const Environment& environment, const std::function<void()>& body) {
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  std::fflush(nullptr);
  Process process{fork(), ends[0]};
  if (process.pid == 0) {
    dup2(ends[1], STDERR_FILENO);
    const int failures_before = tf_collectives::testing::Failures();
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    body();
    std::fflush(nullptr);
    // Without destructors: threads of streams still run.
    _exit(tf_collectives::testing::Failures() == failures_before ? 0 : 1);
  }
  close(ends[1]);
  return process;
}

Ended Finish(const Process& process) {
  Ended ended;
  char buffer[4096];
  for (ssize_t count = 0; (count = read(process.errors, buffer, sizeof buffer)) > 0;)
    ended.errors.append(buffer, static_cast<size_t>(count));
  close(process.errors);
  int status = 0;
  waitpid(process.pid, &status, 0);
  ended.code = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  if (ended.code == 1) std::fputs(ended.errors.c_str(), stderr);
  return ended;
}

}  // namespace

Ended RunProcess(const Environment& environment, const std::function<void()>& body) {
  return Finish(Start(environment, body));
}

std::vector<Ended> RunProcesses(int size, const Environment& environment, const std::function<void(int)>& body) {
  std::vector<Process> processes;
  for (int rank = 0; rank < size; ++rank) {
    Environment of_rank = environment;
    of_rank["TFC_RANK"] = std::to_string(rank);
    of_rank["CUDA_VISIBLE_DEVICES"] = std::to_string(rank);
    of_rank["CUDA_STANDIN_DEVICES"] = std::to_string(size);
    processes.push_back(Start(of_rank, [&] { body(rank); }));
  }
  std::vector<Ended> ended;
  for (const Process& process : processes) ended.push_back(Finish(process));
  return ended;
}

ncclUniqueId NewUniqueId() {
  void* shared = mmap(nullptr, sizeof(ncclUniqueId), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* id = static_cast<ncclUniqueId*>(shared);
  CHECK_EQ(RunProcess({}, [id] { CHECK_NCCL(ncclGetUniqueId(id)); }).code, 0);
  const ncclUniqueId copy = *id;
  munmap(shared, sizeof(ncclUniqueId));
  return copy;
}

void UseDevice(int ordinal) {
  CUcontext context = nullptr;
  CHECK_CUDA(cuInit(0));
  CHECK_CUDA(cuDevicePrimaryCtxRetain(&context, ordinal));
  CHECK_CUDA(cuCtxSetCurrent(context));
}

CUstream NewStream() {
  CUstream stream = nullptr;
  CHECK_CUDA(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

Ranks::Ranks(int size) : size_(size) { CHECK_NCCL(ncclGetUniqueId(&id_)); }

void Ranks::Run(const std::function<void(Rank&)>& body) const {
  tf_collectives::testing::RunRanks(size_, [&](int number) {
    UseDevice(number);
    Rank rank;
    rank.rank = number;
    rank.stream = NewStream();
    CHECK_NCCL(ncclCommInitRank(&rank.comm, size_, id_, number));
    body(rank);
    if (rank.ended) return;
    CHECK_CUDA(cuStreamSynchronize(rank.stream));
    CHECK_NCCL(ncclCommDestroy(rank.comm));
  });
}

ncclResult_t WaitForState(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) {
    CHECK_NCCL(ncclCommGetAsyncError(comm, &state));
    std::this_thread::yield();
  }
  return state;
}

}  // namespace cuda_standin::testing
