#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>

#include "support.h"

namespace cuda_standin::testing {
namespace {

using Clock = std::chrono::steady_clock;

STANDIN_TEST(TheNthCallFails, {{"CUDA_STANDIN_FAULTS", "cuMemAlloc#2=2"}}) {
  UseDevice(0);
  CUdeviceptr pointer = 0;
  CHECK_CUDA(cuMemAlloc(&pointer, 4));
  CHECK_EQ(cuMemAlloc(&pointer, 4), CUDA_ERROR_OUT_OF_MEMORY);
  CHECK_CUDA(cuMemAlloc(&pointer, 4));
}

STANDIN_TEST(AStreamHangs, {{"CUDA_STANDIN_FAULTS", "cuMemsetD8Async=hang"}}) {
  UseDevice(0);
  CUstream stream = NewStream();
  const Array<int> array(1);
  CHECK_CUDA(cuMemsetD8Async(array.address(), 0, 4, stream));
  for (int round = 0; round < 100; ++round) CHECK_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
}

STANDIN_TEST(AStreamIsDelayed, {{"CUDA_STANDIN_FAULTS", "cuMemsetD8Async=delay:100"}}) {
  UseDevice(0);
  CUstream stream = NewStream();
  const Array<int> array(1);
  const auto begin = Clock::now();
  CHECK_CUDA(cuMemsetD8Async(array.address(), 0, 4, stream));
  CHECK_CUDA(cuStreamSynchronize(stream));
  CHECK(Clock::now() - begin >= std::chrono::milliseconds(100));
}

STANDIN_TEST(AnNcclCallFailsOnOneRank, {{"CUDA_STANDIN_FAULTS", "ncclAllReduce@1=3,ncclCommDestroy#99=1"}}) {
  Ranks(2).Run([](Ranks::Rank& rank) {
    rank.ended = true;
    const Array<int> values(1);
    CHECK_NCCL(ncclGroupStart());
    CHECK_EQ(ncclAllReduce(values.pointer(), values.pointer(), 1, ncclInt32, ncclSum, rank.comm, rank.stream),
             (rank.rank == 1 ? ncclInternalError : ncclSuccess));
    CHECK_EQ(ncclGroupEnd(), (rank.rank == 1 ? ncclInternalError : ncclSuccess));
    CHECK_NCCL(ncclCommAbort(rank.comm));
  });
}

STANDIN_TEST(AnAsynchronousError, {{"CUDA_STANDIN_FAULTS", "ncclAllReduce@0#2=async"}}) {
  Ranks(2).Run([](Ranks::Rank& rank) {
    rank.ended = true;
    const Array<int> values(1);
    const auto reduce = [&] {
      return ncclAllReduce(values.pointer(), values.pointer(), 1, ncclInt32, ncclSum, rank.comm, rank.stream);
    };
    CHECK_NCCL(reduce());
    CHECK_CUDA(cuStreamSynchronize(rank.stream));
    CHECK_NCCL(reduce());
    if (rank.rank == 0) {
      ncclResult_t state = ncclSuccess;
      while (state == ncclSuccess) CHECK_NCCL(ncclCommGetAsyncError(rank.comm, &state));
      CHECK_EQ(state, ncclRemoteError);
    }
    // The operation runs until somebody aborts it.
    CHECK_EQ(cuStreamQuery(rank.stream), CUDA_ERROR_NOT_READY);
    CHECK_NCCL(ncclCommAbort(rank.comm));
    CHECK_CUDA(cuStreamSynchronize(rank.stream));
  });
}

STANDIN_TEST(ACommunicatorIsNeverMade, {{"CUDA_STANDIN_FAULTS", "ncclCommInitRankConfig=hang"}}) {
  ncclUniqueId id;
  CHECK_NCCL(ncclGetUniqueId(&id));
  UseDevice(0);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  CHECK_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclInProgress);
  for (int round = 0; round < 100; ++round) {
    ncclResult_t state = ncclSuccess;
    CHECK_NCCL(ncclCommGetAsyncError(comm, &state));
    CHECK_EQ(state, ncclInProgress);
  }
  CHECK_NCCL(ncclCommAbort(comm));
}

TEST(APeerIsLost) {
  const ncclUniqueId id = NewUniqueId();
  const Environment environment = {{"CUDA_STANDIN_FAULTS", "ncclAllReduce@1#2=lose"},
                                   {"CUDA_STANDIN_NCCL_TIMEOUT", "1"}};
  const std::vector<Ended> ended = RunProcesses(2, environment, [&](int rank) {
    UseDevice(0);
    CUstream stream = NewStream();
    ncclComm_t comm = nullptr;
    CHECK_NCCL(ncclCommInitRank(&comm, 2, id, rank));
    const Array<int> values(1);
    for (int round = 0; round < 2; ++round) {
      CHECK_NCCL(ncclAllReduce(values.pointer(), values.pointer(), 1, ncclInt32, ncclSum, comm, stream));
      CHECK_CUDA(cuStreamSynchronize(stream));
    }
    ncclResult_t state = ncclSuccess;
    CHECK_NCCL(ncclCommGetAsyncError(comm, &state));
    CHECK_EQ(state, ncclRemoteError);
  });
  CHECK_EQ(ended[0].code, 0);
  CHECK_EQ(ended[1].code, -SIGKILL);
}

TEST(AFaultThatNobodyUnderstandsEndsTheProcess) {
  const Ended ended = RunProcess({{"CUDA_STANDIN_FAULTS", "cuMemAlloc:2"}}, [] { UseDevice(0); });
  CHECK_EQ(ended.code, -SIGABRT);
  CHECK_CONTAINS(ended.errors, "'cuMemAlloc:2' is not FUNCTION[@RANK][#N]=ACTION");
}

TEST(CallsAreLogged) {
  char path[] = "/tmp/cuda_standin_log_XXXXXX";
  close(mkstemp(path));
  const Ended ended = RunProcess({{"CUDA_STANDIN_LOG", path}, {"TFC_RANK", "3"}}, [] {
    Ranks(1).Run([](Ranks::Rank& rank) {
      const Array<int> values(5);
      CHECK_NCCL(ncclAllReduce(values.pointer(), values.pointer(), 5, ncclInt32, ncclSum, rank.comm, rank.stream));
    });
  });
  CHECK_EQ(ended.code, 0);
  std::ifstream file(path);
  const std::string log((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  CHECK_CONTAINS(log, "\"rank\": 3, \"call\": \"cuMemAlloc\", \"bytes\": 20}\n");
  CHECK_CONTAINS(log, "\"call\": \"ncclAllReduce\", \"comm_rank\": 0, \"count\": 5, \"dtype\": \"int32\"");
  std::remove(path);
}

}  // namespace
}  // namespace cuda_standin::testing
