#include <atomic>
#include <thread>

#include "support.h"

namespace cuda_standin::testing {
namespace {

const std::pair<const std::string, std::string> kFourDevices = {"CUDA_STANDIN_DEVICES", "4"};

ncclConfig_t NonBlocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.commName = "job 7, world";
  return config;
}

STANDIN_TEST(ACommunicatorThatDoesntBlockIsPolled, {kFourDevices, {"CUDA_STANDIN_NCCL_INIT_DELAY_MS", "30"}}) {
  ncclUniqueId id;
  CHECK_NCCL(ncclGetUniqueId(&id));
  tf_collectives::testing::RunRanks(2, [&](int rank) {
    UseDevice(rank);
    ncclConfig_t config = NonBlocking();
    ncclComm_t comm = nullptr;
    CHECK_EQ(ncclCommInitRankConfig(&comm, 2, id, rank, &config), ncclInProgress);
    CHECK_EQ(WaitForState(comm), ncclSuccess);
    int value = -1;
    CHECK_NCCL(ncclCommUserRank(comm, &value));
    CHECK_EQ(value, rank);
    CHECK_NCCL(ncclCommCount(comm, &value));
    CHECK_EQ(value, 2);
    CHECK_NCCL(ncclCommCuDevice(comm, &value));
    CHECK_EQ(value, rank);
    CHECK_EQ(ncclCommFinalize(comm), ncclInProgress);
    CHECK_EQ(WaitForState(comm), ncclSuccess);
    CHECK_NCCL(ncclCommDestroy(comm));
  });
}

STANDIN_TEST(NothingMayBeCalledWhileACommunicatorIsMade, {kFourDevices, {"CUDA_STANDIN_NCCL_TIMEOUT", "20"}}) {
  ncclUniqueId id;
  CHECK_NCCL(ncclGetUniqueId(&id));
  UseDevice(0);
  const Array<int> array(1);
  ncclConfig_t config = NonBlocking();
  ncclComm_t comm = nullptr;
  CHECK_EQ(ncclCommInitRankConfig(&comm, 2, id, 0, &config), ncclInProgress);
  CHECK_EQ(ncclAllReduce(array.pointer(), array.pointer(), 1, ncclInt32, ncclSum, comm, NewStream()),
           ncclInvalidArgument);
  CHECK_CONTAINS(std::string(ncclGetLastError(comm)), "before the previous operation returned ncclSuccess");
  CHECK_NCCL(ncclCommAbort(comm));
}

STANDIN_TEST(AnAbsentRankEndsTheWaitWithAnError, {kFourDevices, {"CUDA_STANDIN_NCCL_TIMEOUT", "0.2"}}) {
  ncclUniqueId id;
  CHECK_NCCL(ncclGetUniqueId(&id));
  UseDevice(0);
  ncclComm_t comm = nullptr;
  CHECK_EQ(ncclCommInitRank(&comm, 2, id, 0), ncclSystemError);
  CHECK_CONTAINS(std::string(ncclGetLastError(nullptr)), "waited in vain for the others to join");
}

STANDIN_TEST(TwoRanksOnOneGpuAreRefused, {kFourDevices}) {
  ncclUniqueId id;
  CHECK_NCCL(ncclGetUniqueId(&id));
  tf_collectives::testing::RunRanks(2, [&](int rank) {
    UseDevice(3);
    ncclComm_t comm = nullptr;
    CHECK_EQ(ncclCommInitRank(&comm, 2, id, rank), ncclInvalidUsage);
  });
  CHECK_CONTAINS(std::string(ncclGetLastError(nullptr)), "Duplicate GPU detected");
}

STANDIN_TEST(TwoRanksOnOneGpuWhereNcclAllowsIt, {kFourDevices, {"NCCL_MULTI_RANK_GPU_ENABLE", "1"}}) {
  ncclUniqueId id;
  CHECK_NCCL(ncclGetUniqueId(&id));
  tf_collectives::testing::RunRanks(2, [&](int rank) {
    UseDevice(3);
    ncclComm_t comm = nullptr;
    CHECK_NCCL(ncclCommInitRank(&comm, 2, id, rank));
    CHECK_NCCL(ncclCommDestroy(comm));
  });
}

STANDIN_TEST(SplitOrdersByKey, {kFourDevices}) {
  Ranks(4).Run([](Ranks::Rank& rank) {
    ncclComm_t half = nullptr;
    // Ranks 0 and 2, in reverse order; 1 isn't in any part; 3 is alone.
    const int color = rank.rank == 1 ? NCCL_SPLIT_NOCOLOR : rank.rank % 2;
    CHECK_NCCL(ncclCommSplit(rank.comm, color, -rank.rank, &half, nullptr));
    if (rank.rank == 1) {
      CHECK(half == nullptr);
      return;
    }
    int number = -1;
    int count = -1;
    CHECK_NCCL(ncclCommUserRank(half, &number));
    CHECK_NCCL(ncclCommCount(half, &count));
    CHECK_EQ(number, rank.rank == 0 ? 1 : 0);
    CHECK_EQ(count, rank.rank == 3 ? 1 : 2);
    const Array<int> values(std::vector<int>{rank.rank + 1});
    CHECK_NCCL(ncclAllReduce(values.pointer(), values.pointer(), 1, ncclInt32, ncclSum, half, rank.stream));
    CHECK_CUDA(cuStreamSynchronize(rank.stream));
    CHECK_EQ(values.Read()[0], 4);
    CHECK_NCCL(ncclCommDestroy(half));
  });
}

STANDIN_TEST(ALaunchMayComeAfterTheCall, {kFourDevices, {"CUDA_STANDIN_NCCL_LAUNCH_DELAY_MS", "30"}}) {
  ncclUniqueId id;
  CHECK_NCCL(ncclGetUniqueId(&id));
  tf_collectives::testing::RunRanks(2, [&](int rank) {
    UseDevice(rank);
    CUstream stream = NewStream();
    ncclConfig_t config = NonBlocking();
    ncclComm_t comm = nullptr;
    CHECK_EQ(ncclCommInitRankConfig(&comm, 2, id, rank, &config), ncclInProgress);
    CHECK_EQ(WaitForState(comm), ncclSuccess);
    const Array<int> values(std::vector<int>{1});
    CHECK_EQ(ncclAllReduce(values.pointer(), values.pointer(), 1, ncclInt32, ncclSum, comm, stream), ncclInProgress);
    CHECK_EQ(WaitForState(comm), ncclSuccess);
    CHECK_CUDA(cuStreamSynchronize(stream));
    CHECK_EQ(values.Read()[0], 2);
    CHECK_NCCL(ncclCommDestroy(comm));
  });
}

STANDIN_TEST(AbortEndsAnOperationThatWaits, {kFourDevices}) {
  Ranks(2).Run([](Ranks::Rank& rank) {
    rank.ended = true;
    const Array<int> values(std::vector<int>{1});
    if (rank.rank == 0) {
      CHECK_NCCL(ncclAllReduce(values.pointer(), values.pointer(), 1, ncclInt32, ncclSum, rank.comm, rank.stream));
      CHECK_EQ(cuStreamQuery(rank.stream), CUDA_ERROR_NOT_READY);
    }
    CHECK_NCCL(ncclCommAbort(rank.comm));
    CHECK_CUDA(cuStreamSynchronize(rank.stream));
    CHECK_EQ(ncclCommDestroy(rank.comm), ncclInvalidArgument);
  });
}

STANDIN_TEST(MemoryOfNccl, {kFourDevices}) {
  Ranks(1).Run([](Ranks::Rank& rank) {
    void* memory = nullptr;
    void* handle = nullptr;
    CHECK_NCCL(ncclMemAlloc(&memory, 100));
    CHECK_NCCL(ncclCommRegister(rank.comm, memory, 100, &handle));
    CHECK_EQ(ncclCommRegister(rank.comm, memory, size_t{4} << 20, &handle), ncclInvalidArgument);
    CHECK_NCCL(ncclCommDeregister(rank.comm, handle));
    CHECK_NCCL(ncclMemFree(memory));
    CHECK_EQ(ncclMemFree(memory), ncclInvalidArgument);
  });
}

}  // namespace
}  // namespace cuda_standin::testing
