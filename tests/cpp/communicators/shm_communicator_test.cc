#include "communicators/shm/shm_communicator.h"

#include <cstring>
#include <memory>
#include <numeric>
#include <random>

#include "shared_memory/segment.h"
#include "testing.h"

namespace tf_collectives {
namespace {

/// Communicators of several ranks on one segment, each to be used by a thread of its own.
class Machine {
 public:
  explicit Machine(int size, uint64_t chunk_bytes = 4096) : layout_{static_cast<uint32_t>(size), 4, chunk_bytes, 4096} {
    FileDescriptor descriptor;
    CHECK_OK(Segment::Create(layout_.TotalBytes(), &segment_, &descriptor));
    board_ = Board(segment_.data(), layout_);
    board_.Format();
    for (int rank = 0; rank < size; ++rank) {
      communicators_.push_back(std::make_unique<ShmCommunicator>(
          board_, rank, ShmCommunicator::Options{std::chrono::microseconds(5), std::chrono::seconds(60)}));
    }
  }
  Communicator& at(int rank) { return *communicators_[rank]; }
  int size() const { return board_.size(); }
  const Board& board() const { return board_; }

 private:
  BoardLayout layout_;
  Segment segment_;
  Board board_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
};

/// Tensors of int32 whose values depend on rank, tensor and position, so that any mix-up shows.
std::vector<std::vector<int32_t>> Values(int rank, const std::vector<size_t>& counts) {
  std::vector<std::vector<int32_t>> tensors;
  for (size_t t = 0; t < counts.size(); ++t) {
    std::vector<int32_t>& tensor = tensors.emplace_back(counts[t]);
    for (size_t i = 0; i < counts[t]; ++i) tensor[i] = static_cast<int32_t>(1000003 * (rank + 1) + 7919 * t + i);
  }
  return tensors;
}

Batch Int32Batch(CollectiveKind kind, const std::vector<std::vector<int32_t>>& inputs,
                 std::vector<std::vector<int32_t>>* outputs) {
  Batch batch;
  batch.kind = kind;
  batch.dtype = DataType::kInt32;
  for (size_t t = 0; t < inputs.size(); ++t) {
    Batch::Segment& segment = batch.segments.emplace_back();
    segment.input = inputs[t].data();
    segment.output = (*outputs)[t].data();
    segment.bytes = inputs[t].size() * sizeof(int32_t);
  }
  return batch;
}

const std::vector<std::vector<size_t>> kTensorLists = {
    {0}, {1}, {0, 3, 0, 1}, {17, 900}, {4096}, {5000, 1, 0, 70000, 3}, {400000}, std::vector<size_t>(300, 37)};

void AllReduceOnce(Machine* machine, int rank, const std::vector<size_t>& counts, bool in_place) {
  std::vector<std::vector<int32_t>> inputs = Values(rank, counts), outputs = inputs;
  Batch batch = Int32Batch(CollectiveKind::kAllReduce, inputs, in_place ? &inputs : &outputs);
  CHECK_OK(machine->at(rank).Run(batch));
  std::vector<std::vector<int32_t>> expected = Values(0, counts);
  for (int other = 1; other < machine->size(); ++other) {
    const auto values = Values(other, counts);
    for (size_t t = 0; t < counts.size(); ++t) {
      for (size_t i = 0; i < counts[t]; ++i) expected[t][i] += values[t][i];
    }
  }
  CHECK((in_place ? inputs : outputs) == expected);
}

TEST(AllReduceAddsEveryElementOnce) {
  for (const int size : {2, 3, 4}) {
    Machine machine(size);
    testing::RunRanks(size, [&](int rank) {
      for (const std::vector<size_t>& counts : kTensorLists) {
        AllReduceOnce(&machine, rank, counts, false);
        AllReduceOnce(&machine, rank, counts, true);
      }
    });
  }
}

TEST(AllReduceDoesNotDependOnFusion) {
  constexpr size_t kCount = 20000;
  Machine machine(3);
  testing::RunRanks(3, [&](int rank) {
    std::mt19937 random(rank);
    std::vector<float> input(kCount), whole(kCount), parts(kCount);
    for (float& value : input) value = std::normal_distribution<float>()(random);
    const auto segment = [&](size_t from, size_t to, std::vector<float>* output) {
      Batch::Segment result;
      result.input = input.data() + from;
      result.output = output->data() + from;
      result.bytes = (to - from) * sizeof(float);
      return result;
    };
    Batch batch;
    batch.segments = {segment(0, kCount, &whole)};
    CHECK_OK(machine.at(rank).Run(batch));
    for (const auto& [from, to] : {std::pair<size_t, size_t>{0, 1}, {1, 3001}, {3001, kCount}}) {
      batch.segments = {segment(from, to, &parts)};
      CHECK_OK(machine.at(rank).Run(batch));
    }
    CHECK(std::memcmp(whole.data(), parts.data(), kCount * sizeof(float)) == 0);
  });
}

TEST(AllGatherPutsEveryPartInItsPlace) {
  for (const int size : {2, 3, 4}) {
    Machine machine(size);
    testing::RunRanks(size, [&](int rank) {
      for (const std::vector<size_t>& counts : kTensorLists) {
        // Rank r contributes r times as much, so rank 0 nothing at all.
        const auto scaled = [&](int r) {
          std::vector<size_t> result = counts;
          for (size_t& count : result) count *= r;
          return result;
        };
        const std::vector<std::vector<int32_t>> inputs = Values(rank, scaled(rank));
        std::vector<std::vector<int32_t>> outputs(counts.size()), expected(counts.size());
        for (int other = 0; other < size; ++other) {
          const auto values = Values(other, scaled(other));
          for (size_t t = 0; t < counts.size(); ++t)
            expected[t].insert(expected[t].end(), values[t].begin(), values[t].end());
        }
        for (size_t t = 0; t < counts.size(); ++t) outputs[t].resize(expected[t].size());
        Batch batch = Int32Batch(CollectiveKind::kAllGather, inputs, &outputs);
        for (size_t t = 0; t < counts.size(); ++t) {
          for (int other = 0; other < size; ++other)
            batch.segments[t].rank_bytes.push_back(counts[t] * other * sizeof(int32_t));
        }
        CHECK_OK(machine.at(rank).Run(batch));
        CHECK(outputs == expected);
      }
    });
  }
}

TEST(BroadcastTakesTheRootsValues) {
  for (const int size : {2, 3, 4}) {
    Machine machine(size);
    testing::RunRanks(size, [&](int rank) {
      for (const std::vector<size_t>& counts : kTensorLists) {
        for (int root = 0; root < size; ++root) {
          const std::vector<std::vector<int32_t>> inputs = Values(rank, counts);
          std::vector<std::vector<int32_t>> outputs = inputs;
          Batch batch = Int32Batch(CollectiveKind::kBroadcast, inputs, &outputs);
          batch.root_rank = root;
          CHECK_OK(machine.at(rank).Run(batch));
          CHECK(outputs == Values(root, counts));
        }
      }
    });
  }
}

TEST(ARankWithoutMemoryTakesPart) {
  Machine machine(2);
  testing::RunRanks(2, [&](int rank) {
    const std::vector<std::vector<int32_t>> inputs = Values(rank, {50000});
    std::vector<std::vector<int32_t>> outputs(1, std::vector<int32_t>(100000));
    Batch batch = Int32Batch(CollectiveKind::kAllGather, inputs, &outputs);
    batch.segments[0].rank_bytes = {200000, 200000};
    if (rank == 1) batch.segments[0].output = nullptr;
    CHECK_OK(machine.at(rank).Run(batch));
    if (rank == 0) CHECK_EQ(outputs[0][50000], Values(1, {50000})[0][0]);
  });
}

TEST(ManyMixedCollectivesKeepTheirOrder) {
  Machine machine(4);
  testing::RunRanks(4, [&](int rank) {
    std::mt19937 random(3);  // the same on every rank
    for (int step = 0; step < 150; ++step) {
      const size_t count = random() % 6000;
      if (random() % 2 == 0) {
        AllReduceOnce(&machine, rank, {count, 3}, random() % 2 == 0);
        continue;
      }
      const std::vector<std::vector<int32_t>> inputs = Values(rank, {count});
      std::vector<std::vector<int32_t>> outputs = inputs;
      Batch batch = Int32Batch(CollectiveKind::kBroadcast, inputs, &outputs);
      batch.root_rank = static_cast<int>(random() % 4);
      CHECK_OK(machine.at(rank).Run(batch));
      CHECK(outputs == Values(batch.root_rank, {count}));
    }
  });
}

TEST(ALostRankEndsTheWait) {
  Machine machine(3);
  testing::RunRanks(3, [&](int rank) {
    if (rank == 2) {
      machine.board().ReportLost(2);
      return;
    }
    const std::vector<std::vector<int32_t>> inputs = Values(rank, {1000000});
    std::vector<std::vector<int32_t>> outputs = inputs;
    CHECK_EQ(machine.at(rank).Run(Int32Batch(CollectiveKind::kAllReduce, inputs, &outputs)).code(),
             StatusCode::kUnavailable);
  });
}

}  // namespace
}  // namespace tf_collectives
