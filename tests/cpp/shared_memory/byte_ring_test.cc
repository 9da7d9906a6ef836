#include "shared_memory/byte_ring.h"

#include <cstdlib>
#include <memory>
#include <string>

#include "testing.h"

namespace tf_collectives {
namespace {

using RingPointer = std::unique_ptr<ByteRing, decltype(&std::free)>;

RingPointer MakeRing(size_t capacity) {
  void* memory = std::aligned_alloc(64, (ByteRing::FootprintFor(capacity) + 63) / 64 * 64);
  RingPointer ring(new (memory) ByteRing(), &std::free);
  ring->capacity = capacity;
  return ring;
}

TEST(WritesWhatFitsAndReadsItBack) {
  const RingPointer ring = MakeRing(8);
  CHECK_EQ(ring->Write("abcdefghij", 10), size_t{8});
  char bytes[16];
  CHECK_EQ(ring->Read(bytes, 3), size_t{3});
  CHECK_EQ(ring->Write("ij", 2), size_t{2});
  CHECK_EQ(ring->Readable(), size_t{7});
  CHECK_EQ(ring->Read(bytes + 3, 16), size_t{7});
  CHECK_EQ(std::string(bytes, 10), "abcdefghij");
  CHECK_EQ(ring->Read(bytes, 16), size_t{0});
}

TEST(KeepsAStreamIntactBetweenThreads) {
  constexpr size_t kBytes = 100000;
  const RingPointer ring = MakeRing(61);
  testing::RunRanks(2, [&](int rank) {
    size_t done = 0;
    char bytes[17];
    while (done < kBytes) {
      if (rank == 0) {
        for (size_t i = 0; i < sizeof(bytes); ++i) bytes[i] = static_cast<char>((done + i) % 251);
        done += ring->Write(bytes, std::min(sizeof(bytes), kBytes - done));
      } else {
        const size_t count = ring->Read(bytes, sizeof(bytes));
        for (size_t i = 0; i < count; ++i) {
          if (bytes[i] != static_cast<char>((done + i) % 251)) {
            CHECK_EQ(done + i, kBytes);
            return;
          }
        }
        done += count;
      }
    }
  });
}

}  // namespace
}  // namespace tf_collectives
