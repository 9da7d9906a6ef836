#include <future>

#include "support.h"

namespace cuda_standin::testing {
namespace {

const Environment kTwoDevices = {{"CUDA_STANDIN_DEVICES", "2"}, {"CUDA_STANDIN_NCCL_TIMEOUT", "20"}};

/// What the program does in both ranks leaves the communicator with an error; its text is returned.
void CheckThatBothRanksFail(const std::string& text, const std::function<void(Ranks::Rank&)>& body) {
  Ranks(2).Run([&](Ranks::Rank& rank) {
    rank.ended = true;
    body(rank);
    CHECK_CUDA(cuStreamSynchronize(rank.stream));
    ncclResult_t state = ncclSuccess;
    CHECK_NCCL(ncclCommGetAsyncError(rank.comm, &state));
    CHECK_EQ(state, ncclRemoteError);
    CHECK_CONTAINS(std::string(ncclGetLastError(rank.comm)), text);
    CHECK_NCCL(ncclCommAbort(rank.comm));
  });
}

STANDIN_TEST(RanksReduceDifferentCounts, (kTwoDevices)) {
  CheckThatBothRanksFail("ranks call different collectives", [](Ranks::Rank& rank) {
    const Array<int> values(3);
    const auto count = static_cast<size_t>(2 + rank.rank);
    CHECK_NCCL(ncclAllReduce(values.pointer(), values.pointer(), count, ncclInt32, ncclSum, rank.comm, rank.stream));
  });
}

STANDIN_TEST(RanksCallDifferentCollectives, (kTwoDevices)) {
  CheckThatBothRanksFail("ranks call different collectives", [](Ranks::Rank& rank) {
    const Array<int> values(2);
    if (rank.rank == 0)
      CHECK_NCCL(ncclAllReduce(values.pointer(), values.pointer(), 2, ncclInt32, ncclSum, rank.comm, rank.stream));
    else
      CHECK_NCCL(ncclBroadcast(values.pointer(), values.pointer(), 2, ncclInt32, 0, rank.comm, rank.stream));
  });
}

STANDIN_TEST(ASendAndItsReceiveDiffer, (kTwoDevices)) {
  CheckThatBothRanksFail("rank 0 sends 2 int32 to rank 1, which wants to receive 2 float32", [](Ranks::Rank& rank) {
    const Array<int> values(2);
    if (rank.rank == 0)
      CHECK_NCCL(ncclSend(values.pointer(), 2, ncclInt32, 1, rank.comm, rank.stream));
    else
      CHECK_NCCL(ncclRecv(values.pointer(), 2, ncclFloat32, 0, rank.comm, rank.stream));
    // The sender may have gone on before the receiver looks.
    CHECK_NCCL(ncclAllReduce(values.pointer(), values.pointer(), 2, ncclInt32, ncclSum, rank.comm, rank.stream));
  });
}

// A broken variant: two communicators whose operations the ranks launch in different orders, which blocks GPUs.
STANDIN_TEST(TwoCommunicatorsInDifferentOrders, (kTwoDevices)) {
  CheckThatBothRanksFail("ranks launch on two communicators in different orders", [](Ranks::Rank& rank) {
    ncclComm_t other = nullptr;
    CHECK_NCCL(ncclCommSplit(rank.comm, 0, rank.rank, &other, nullptr));
    const Array<int> values(2);
    CUstream stream = NewStream();
    const auto on_first = [&] {
      CHECK_NCCL(ncclAllReduce(values.pointer(), values.pointer(), 1, ncclInt32, ncclSum, rank.comm, rank.stream));
    };
    const auto on_other = [&] {
      CHECK_NCCL(ncclAllReduce(values.pointer() + 1, values.pointer() + 1, 1, ncclInt32, ncclSum, other, stream));
    };
    if (rank.rank == 0) {
      on_first();
      on_other();
    } else {
      on_other();
      on_first();
    }
    CHECK_CUDA(cuStreamSynchronize(stream));
    CHECK_NCCL(ncclCommAbort(other));
  });
}

STANDIN_TEST(TwoCommunicatorsInOneOrder, (kTwoDevices)) {
  Ranks(2).Run([](Ranks::Rank& rank) {
    ncclComm_t other = nullptr;
    CHECK_NCCL(ncclCommSplit(rank.comm, 0, rank.rank, &other, nullptr));
    const Array<int> values(std::vector<int>{1, 1});
    CUstream stream = NewStream();
    for (int round = 0; round < 10; ++round) {
      CHECK_NCCL(ncclAllReduce(values.pointer(), values.pointer(), 1, ncclInt32, ncclMax, rank.comm, rank.stream));
      CHECK_NCCL(ncclAllReduce(values.pointer() + 1, values.pointer() + 1, 1, ncclInt32, ncclMax, other, stream));
    }
    CHECK_CUDA(cuStreamSynchronize(stream));
    CHECK_NCCL(ncclCommDestroy(other));
  });
}

STANDIN_TEST(OneRankNeverCalls, {{"CUDA_STANDIN_NCCL_TIMEOUT", "0.2"}}) {
  Ranks(2).Run([](Ranks::Rank& rank) {
    rank.ended = true;
    if (rank.rank == 1) return;
    const Array<int> values(2);
    CHECK_NCCL(ncclAllReduce(values.pointer(), values.pointer(), 2, ncclInt32, ncclSum, rank.comm, rank.stream));
    CHECK_CUDA(cuStreamSynchronize(rank.stream));
    ncclResult_t state = ncclSuccess;
    CHECK_NCCL(ncclCommGetAsyncError(rank.comm, &state));
    CHECK_EQ(state, ncclRemoteError);
    CHECK_CONTAINS(std::string(ncclGetLastError(rank.comm)), "waited in vain for the others in a collective");
  });
}

STANDIN_TEST(WrongArgumentsAreRefused, (kTwoDevices)) {
  Ranks(1).Run([](Ranks::Rank& rank) {
    const Array<int> values(4);
    int* const pointer = values.pointer();
    int host[4];
    const auto reduce = [&](const void* send, void* receive, size_t count, CUstream stream) {
      return ncclAllReduce(send, receive, count, ncclInt32, ncclSum, rank.comm, stream);
    };
    CHECK_EQ(reduce(pointer, pointer, 5, rank.stream), ncclInvalidArgument);
    CHECK_EQ(reduce(host, pointer, 4, rank.stream), ncclInvalidArgument);
    CHECK_EQ(reduce(pointer, pointer + 1, 2, rank.stream), ncclInvalidArgument);
    CHECK_CONTAINS(std::string(ncclGetLastError(rank.comm)), "overlap");
    CHECK_EQ(ncclBroadcast(pointer, pointer, 4, ncclInt32, 1, rank.comm, rank.stream), ncclInvalidArgument);
    UseDevice(1);
    CHECK_EQ(reduce(pointer, pointer, 4, NewStream()), ncclInvalidArgument);
    const Array<int> elsewhere(4);
    CHECK_EQ(reduce(elsewhere.pointer(), elsewhere.pointer(), 4, rank.stream), ncclInvalidArgument);
    // An error inside a group makes its end fail.
    CHECK_NCCL(ncclGroupStart());
    CHECK_NCCL(reduce(pointer, pointer, 4, rank.stream));
    CHECK_EQ(reduce(pointer, pointer, 5, rank.stream), ncclInvalidArgument);
    CHECK_EQ(ncclGroupEnd(), ncclInvalidArgument);
  });
}

STANDIN_TEST(MemoryThatIsFreedBeforeItsCollectiveRuns, (kTwoDevices)) {
  std::promise<void> freed;
  Ranks(2).Run([&](Ranks::Rank& rank) {
    rank.ended = true;
    const Array<int> values(4);
    CUstream other = NewStream();
    if (rank.rank == 0) {
      // The other rank calls later, so nothing has run.
      CHECK_NCCL(ncclAllReduce(values.pointer(), values.pointer(), 4, ncclInt32, ncclSum, rank.comm, rank.stream));
      CHECK_CUDA(cuMemFreeAsync(values.address(), other));
      CHECK_CUDA(cuStreamSynchronize(other));
      freed.set_value();
    } else {
      freed.get_future().wait();
      CHECK_NCCL(ncclAllReduce(values.pointer(), values.pointer(), 4, ncclInt32, ncclSum, rank.comm, rank.stream));
    }
    CHECK_EQ(cuStreamSynchronize(rank.stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  });
}

}  // namespace
}  // namespace cuda_standin::testing
