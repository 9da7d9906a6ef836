// The mistakes that an op can make with the order of streams, and what the stand-in makes of them. Each is run as it
// should be, which must always be right, and with its mistake, which must show in some of the rounds.

#include "support.h"

namespace cuda_standin::testing {
namespace {

const std::pair<const std::string, std::string> kJitter = {"CUDA_STANDIN_JITTER_US", "1000"};
constexpr int kRounds = 20;

CUevent NewEvent() {
  CUevent event = nullptr;
  CHECK_CUDA(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  return event;
}

/// TensorFlow's compute stream, and the one that a collective runs on.
struct Streams {
  CUstream compute = NewStream();
  CUstream communication = NewStream();

  void MakeCommunicationWait() const { MakeWait(communication, compute); }
  void MakeComputeWait() const { MakeWait(compute, communication); }
  static void MakeWait(CUstream waiting, CUstream awaited) {
    CUevent event = NewEvent();
    CHECK_CUDA(cuEventRecord(event, awaited));
    CHECK_CUDA(cuStreamWaitEvent(waiting, event, 0));
    CHECK_CUDA(cuEventDestroy(event));
  }
};

int CountWrong(const std::function<bool(Ranks::Rank&, const Streams&)>& is_right) {
  int wrong = 0;
  Ranks(1).Run([&](Ranks::Rank& rank) {
    const Streams streams;
    for (int round = 0; round < kRounds; ++round) {
      if (!is_right(rank, streams)) ++wrong;
      CHECK_CUDA(cuCtxSynchronize());
    }
  });
  return wrong;
}

// The input is written by a kernel that may not have run yet.
bool ReduceAfterInput(Ranks::Rank& rank, const Streams& streams, bool waits) {
  const Array<int> input(std::vector<int>{0});
  const Array<int> output(1);
  CHECK_CUDA(cuMemsetD32Async(input.address(), 5, 1, streams.compute));
  if (waits) streams.MakeCommunicationWait();
  CHECK_NCCL(ncclAllReduce(input.pointer(), output.pointer(), 1, ncclInt32, ncclSum, rank.comm, streams.communication));
  CHECK_CUDA(cuStreamSynchronize(streams.communication));
  return output.Read()[0] == 5;
}

STANDIN_TEST(TheWaitForAnInputIsLeftOut, {kJitter}) {
  CHECK_EQ(CountWrong([](auto& rank, auto& streams) { return ReduceAfterInput(rank, streams, true); }), 0);
  CHECK(CountWrong([](auto& rank, auto& streams) { return ReduceAfterInput(rank, streams, false); }) > 0);
}

// The output is allocated after the input's event was recorded, in memory that a queued kernel still reads: TensorFlow
// frees tensors when their kernels are queued.
bool GatherIntoReusedMemory(Ranks::Rank& rank, const Streams& streams, bool has_second_event) {
  const Array<int> input(std::vector<int>{5});
  const Array<int> reused(std::vector<int>{7});
  const Array<int> result_of_earlier_kernel(1);
  streams.MakeCommunicationWait();
  CHECK_CUDA(cuMemcpyDtoDAsync(result_of_earlier_kernel.address(), reused.address(), 4, streams.compute));
  const Array<int>& output = reused;
  if (has_second_event) streams.MakeCommunicationWait();
  CHECK_NCCL(ncclAllGather(input.pointer(), output.pointer(), 1, ncclInt32, rank.comm, streams.communication));
  CHECK_CUDA(cuCtxSynchronize());
  return result_of_earlier_kernel.Read()[0] == 7 && output.Read()[0] == 5;
}

STANDIN_TEST(TheSecondEventAfterALateAllocationIsLeftOut, {kJitter}) {
  CHECK_EQ(CountWrong([](auto& rank, auto& streams) { return GatherIntoReusedMemory(rank, streams, true); }), 0);
  CHECK(CountWrong([](auto& rank, auto& streams) { return GatherIntoReusedMemory(rank, streams, false); }) > 0);
}

// The op is done once the communication stream has passed an event; from then on kernels use its output.
bool UseOutputWhenDone(Ranks::Rank& rank, const Streams& streams, bool polls) {
  const Array<int> input(std::vector<int>{5});
  const Array<int> output(std::vector<int>{0});
  const Array<int> used(1);
  CUevent passed = NewEvent();
  CHECK_NCCL(ncclAllReduce(input.pointer(), output.pointer(), 1, ncclInt32, ncclSum, rank.comm, streams.communication));
  CHECK_CUDA(cuEventRecord(passed, streams.communication));
  while (polls && cuEventQuery(passed) == CUDA_ERROR_NOT_READY) continue;
  CHECK_CUDA(cuMemcpyDtoDAsync(used.address(), output.address(), 4, streams.compute));
  CHECK_CUDA(cuStreamSynchronize(streams.compute));
  return used.Read()[0] == 5;
}

STANDIN_TEST(DoneIsCalledTooEarly, {kJitter}) {
  CHECK_EQ(CountWrong([](auto& rank, auto& streams) { return UseOutputWhenDone(rank, streams, true); }), 0);
  CHECK(CountWrong([](auto& rank, auto& streams) { return UseOutputWhenDone(rank, streams, false); }) > 0);
}

// A communicator that doesn't block may not have launched yet, and the event passes before the collective.
bool RecordAfterLaunch(ncclComm_t comm, CUstream stream, bool polls) {
  const Array<int> input(std::vector<int>{5});
  const Array<int> output(std::vector<int>{0});
  CUevent passed = NewEvent();
  const ncclResult_t result = ncclAllReduce(input.pointer(), output.pointer(), 1, ncclInt32, ncclSum, comm, stream);
  CHECK(result == ncclSuccess || result == ncclInProgress);
  if (polls) CHECK_NCCL(WaitForState(comm));
  CHECK_CUDA(cuEventRecord(passed, stream));
  CHECK_CUDA(cuEventSynchronize(passed));
  const bool is_right = output.Read()[0] == 5;
  CHECK_NCCL(WaitForState(comm));
  CHECK_CUDA(cuStreamSynchronize(stream));
  return is_right;
}

STANDIN_TEST(AnEventIsRecordedBeforeNcclHasLaunched, {kJitter, {"CUDA_STANDIN_NCCL_LAUNCH_DELAY_MS", "5"}}) {
  UseDevice(0);
  CUstream stream = NewStream();
  ncclUniqueId id;
  CHECK_NCCL(ncclGetUniqueId(&id));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  CHECK_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclInProgress);
  CHECK_NCCL(WaitForState(comm));
  int wrong = 0;
  for (int round = 0; round < kRounds; ++round) {
    CHECK(RecordAfterLaunch(comm, stream, true));
    if (!RecordAfterLaunch(comm, stream, false)) ++wrong;
  }
  CHECK(wrong > 0);
}

}  // namespace
}  // namespace cuda_standin::testing
