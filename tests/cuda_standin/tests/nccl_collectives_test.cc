#include <cmath>
#include <numeric>

#include "support.h"

namespace cuda_standin::testing {
namespace {

extern "C" ncclResult_t ncclAlltoAll(const void* send, void* receive, size_t count, ncclDataType_t dtype,
                                     ncclComm_t comm, cudaStream_t stream);

const Environment kThreeDevices = {{"CUDA_STANDIN_DEVICES", "3"}, {"CUDA_STANDIN_JITTER_US", "200"}};

// Longer than what goes through the meeting place at once, and no multiple of it.
constexpr size_t kLong = 300'001;

template <typename Value>
std::vector<Value> Sequence(size_t count, double first) {
  std::vector<Value> values(count);
  for (size_t index = 0; index < count; ++index)
    values[index] = static_cast<Value>(first + static_cast<double>(index % 7));
  return values;
}

template <typename Value>
void CheckReductions(ncclDataType_t dtype) {
  Ranks(3).Run([&](Ranks::Rank& rank) {
    const Array<Value> input(Sequence<Value>(kLong, rank.rank + 1));
    const Array<Value> output(kLong);
    const auto reduce = [&](ncclRedOp_t op) {
      CHECK_NCCL(ncclAllReduce(input.pointer(), output.pointer(), kLong, dtype, op, rank.comm, rank.stream));
      CHECK_CUDA(cuStreamSynchronize(rank.stream));
      const std::vector<Value> values = output.Read();
      return std::vector<double>{double(values[0]), double(values[6]), double(values[kLong - 1])};
    };
    const double last = static_cast<double>((kLong - 1) % 7);
    CHECK_EQ(reduce(ncclSum), (std::vector<double>{6, 24, 6 + 3 * last}));
    CHECK_EQ(reduce(ncclMax), (std::vector<double>{3, 9, 3 + last}));
    CHECK_EQ(reduce(ncclMin), (std::vector<double>{1, 7, 1 + last}));
    CHECK_EQ(reduce(ncclAvg), (std::vector<double>{2, 8, 2 + last}));
    CHECK_EQ(reduce(ncclProd)[0], 6.0);
  });
}

STANDIN_TEST(AllReduceReducesEachType, (kThreeDevices)) {
  CheckReductions<float>(ncclFloat32);
  CheckReductions<double>(ncclFloat64);
  CheckReductions<int32_t>(ncclInt32);
  CheckReductions<int64_t>(ncclInt64);
  CheckReductions<uint32_t>(ncclUint32);
  CheckReductions<uint64_t>(ncclUint64);
  CheckReductions<_Float16>(ncclFloat16);
}

STANDIN_TEST(AllReduceOfSmallTypes, (kThreeDevices)) {
  Ranks(3).Run([](Ranks::Rank& rank) {
    const Array<int8_t> bytes(std::vector<int8_t>{100, -1});
    CHECK_NCCL(ncclAllReduce(bytes.pointer(), bytes.pointer(), 2, ncclInt8, ncclSum, rank.comm, rank.stream));
    // 1.0 and 0.5 as bfloat16.
    const Array<uint16_t> floats(std::vector<uint16_t>{0x3f80, 0x3f00});
    CHECK_NCCL(ncclAllReduce(floats.pointer(), floats.pointer(), 2, ncclBfloat16, ncclSum, rank.comm, rank.stream));
    CHECK_CUDA(cuStreamSynchronize(rank.stream));
    CHECK_EQ(int{bytes.Read()[0]}, int{static_cast<int8_t>(300)});
    CHECK_EQ(int{bytes.Read()[1]}, -3);
    CHECK_EQ(floats.Read(), (std::vector<uint16_t>{0x4040, 0x3fc0}));
  });
}

STANDIN_TEST(APremultipliedSumHasAScalarPerRank, (kThreeDevices)) {
  Ranks(3).Run([](Ranks::Rank& rank) {
    const Array<float> values(std::vector<float>{1, 2});
    float scalar = static_cast<float>(rank.rank) + 0.5f;
    ncclRedOp_t op;
    CHECK_NCCL(ncclRedOpCreatePreMulSum(&op, &scalar, ncclFloat32, ncclScalarHostImmediate, rank.comm));
    CHECK_NCCL(ncclAllReduce(values.pointer(), values.pointer(), 2, ncclFloat32, op, rank.comm, rank.stream));
    CHECK_NCCL(ncclRedOpDestroy(op, rank.comm));
    CHECK_CUDA(cuStreamSynchronize(rank.stream));
    CHECK_EQ(values.Read(), (std::vector<float>{4.5f, 9}));
    CHECK_EQ(ncclAllReduce(values.pointer(), values.pointer(), 2, ncclFloat32, op, rank.comm, rank.stream),
             ncclInvalidArgument);
  });
}

STANDIN_TEST(ReduceAndBroadcastHaveARoot, (kThreeDevices)) {
  Ranks(3).Run([](Ranks::Rank& rank) {
    const Array<int> values(std::vector<int>{rank.rank, 10});
    const Array<int> result(std::vector<int>{-1, -1});
    CHECK_NCCL(ncclReduce(values.pointer(), result.pointer(), 2, ncclInt32, ncclSum, 1, rank.comm, rank.stream));
    CHECK_CUDA(cuStreamSynchronize(rank.stream));
    CHECK_EQ(result.Read(), (rank.rank == 1 ? std::vector<int>{3, 30} : std::vector<int>{-1, -1}));
    CHECK_NCCL(ncclBroadcast(rank.rank == 2 ? values.pointer() : nullptr, result.pointer(), 2, ncclInt32, 2, rank.comm,
                             rank.stream));
    CHECK_CUDA(cuStreamSynchronize(rank.stream));
    CHECK_EQ(result.Read(), (std::vector<int>{2, 10}));
  });
}

STANDIN_TEST(GatherScatterAndAllToAll, (kThreeDevices)) {
  Ranks(3).Run([](Ranks::Rank& rank) {
    const Array<int> block(std::vector<int>{rank.rank, 10 * rank.rank});
    const Array<int> all(6);
    CHECK_NCCL(ncclAllGather(block.pointer(), all.pointer(), 2, ncclInt32, rank.comm, rank.stream));
    CHECK_CUDA(cuStreamSynchronize(rank.stream));
    CHECK_EQ(all.Read(), (std::vector<int>{0, 0, 1, 10, 2, 20}));
    CHECK_NCCL(ncclReduceScatter(all.pointer(), block.pointer(), 2, ncclInt32, ncclSum, rank.comm, rank.stream));
    CHECK_CUDA(cuStreamSynchronize(rank.stream));
    CHECK_EQ(block.Read(), (std::vector<int>{3 * rank.rank, 30 * rank.rank}));
    const Array<int> exchanged(3);
    const Array<int> sent(std::vector<int>{10 * rank.rank, 10 * rank.rank + 1, 10 * rank.rank + 2});
    CHECK_NCCL(ncclAlltoAll(sent.pointer(), exchanged.pointer(), 1, ncclInt32, rank.comm, rank.stream));
    CHECK_CUDA(cuStreamSynchronize(rank.stream));
    CHECK_EQ(exchanged.Read(), (std::vector<int>{rank.rank, 10 + rank.rank, 20 + rank.rank}));
  });
}

STANDIN_TEST(GatherAndScatterInPlace, (kThreeDevices)) {
  Ranks(3).Run([](Ranks::Rank& rank) {
    std::vector<int> values(3, -1);
    values[static_cast<size_t>(rank.rank)] = rank.rank;
    const Array<int> all(values);
    CHECK_NCCL(ncclAllGather(all.pointer() + rank.rank, all.pointer(), 1, ncclInt32, rank.comm, rank.stream));
    CHECK_CUDA(cuStreamSynchronize(rank.stream));
    CHECK_EQ(all.Read(), (std::vector<int>{0, 1, 2}));
    CHECK_NCCL(
        ncclReduceScatter(all.pointer(), all.pointer() + rank.rank, 1, ncclInt32, ncclSum, rank.comm, rank.stream));
    CHECK_CUDA(cuStreamSynchronize(rank.stream));
    CHECK_EQ(all.Read()[static_cast<size_t>(rank.rank)], 3 * rank.rank);
  });
}

STANDIN_TEST(SendsAndReceivesOfAGroupGetOnTogether, (kThreeDevices)) {
  Ranks(3).Run([](Ranks::Rank& rank) {
    const int next = (rank.rank + 1) % 3;
    const int previous = (rank.rank + 2) % 3;
    const Array<int> sent(std::vector<int>(kLong, rank.rank));
    const Array<int> received(kLong);
    const Array<int> reduced(std::vector<int>{1});
    CUstream other = NewStream();
    // Larger than what a send can leave for its receiver, in an order that would block without the group, with a
    // collective among them, and on two streams.
    CHECK_NCCL(ncclGroupStart());
    CHECK_NCCL(ncclSend(sent.pointer(), kLong, ncclInt32, next, rank.comm, rank.stream));
    CHECK_NCCL(ncclAllReduce(reduced.pointer(), reduced.pointer(), 1, ncclInt32, ncclSum, rank.comm, rank.stream));
    CHECK_NCCL(ncclRecv(received.pointer(), kLong, ncclInt32, previous, rank.comm, other));
    CHECK_NCCL(ncclGroupEnd());
    CHECK_CUDA(cuStreamSynchronize(rank.stream));
    CHECK_CUDA(cuStreamSynchronize(other));
    CHECK_EQ(received.Read(), std::vector<int>(kLong, previous));
    CHECK_EQ(reduced.Read(), std::vector<int>{3});
  });
}

STANDIN_TEST(OneCommunicatorOnTwoStreamsKeepsItsOrder, (kThreeDevices)) {
  Ranks(3).Run([](Ranks::Rank& rank) {
    CUstream other = NewStream();
    const Array<int> first(std::vector<int>{1});
    const Array<double> second(std::vector<double>{2});
    for (int round = 0; round < 20; ++round) {
      CHECK_NCCL(ncclAllReduce(first.pointer(), first.pointer(), 1, ncclInt32, ncclMax, rank.comm, rank.stream));
      CHECK_NCCL(ncclAllReduce(second.pointer(), second.pointer(), 1, ncclFloat64, ncclMax, rank.comm, other));
    }
    CHECK_CUDA(cuStreamSynchronize(other));
  });
}

TEST(RanksCanBeProcesses) {
  const ncclUniqueId id = NewUniqueId();
  for (const Ended& ended : RunProcesses(4, {}, [&](int rank) {
         UseDevice(0);
         CUstream stream = NewStream();
         ncclComm_t comm = nullptr;
         CHECK_NCCL(ncclCommInitRank(&comm, 4, id, rank));
         const Array<float> values(std::vector<float>(kLong, 1));
         CHECK_NCCL(ncclAllReduce(values.pointer(), values.pointer(), kLong, ncclFloat32, ncclSum, comm, stream));
         CHECK_CUDA(cuStreamSynchronize(stream));
         CHECK_EQ(values.Read(), std::vector<float>(kLong, 4));
         CHECK_NCCL(ncclCommDestroy(comm));
       }))
    CHECK_EQ(ended.code, 0);
}

}  // namespace
}  // namespace cuda_standin::testing
