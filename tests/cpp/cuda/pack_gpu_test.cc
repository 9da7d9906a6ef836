// The kernels on a GPU: that of this machine, or the CUDA stand-in's.

#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "cuda/kernel_checks.h"
#include "cuda/pack.h"
#include "testing.h"
#include "text.h"

namespace tf_collectives::cuda {
namespace {

/// The first GPU, a stream, and the kernels.
struct Gpu {
  Gpu() {
    Status status;
    driver = LoadCudaDriver(&status);
    CHECK_OK(status);
    CHECK_OK(Device::Open(driver, 0, &device));
    CHECK_OK(device->CreateStream(&stream));
    CHECK_OK(PackKernels::Create(device.get(), &kernels));
  }

  Status Synchronise() const { return driver->Check(driver->cuStreamSynchronize(stream.get()), "cuStreamSynchronize"); }

  const CudaDriver* driver = nullptr;
  std::unique_ptr<Device> device;
  Stream stream;
  std::unique_ptr<PackKernels> kernels;
};

/// Device memory and what the host knows of it.
class Array {
 public:
  Array(const Gpu& gpu, std::vector<unsigned char> bytes) : gpu_(gpu), bytes_(std::move(bytes)) {
    CHECK_OK(gpu_.device->Allocate(bytes_.size(), "a test", &memory_));
    const ContextGuard guard(gpu_.driver, gpu_.device->context());
    CHECK_OK(gpu_.driver->Check(gpu_.driver->cuMemcpyHtoDAsync_v2(ToDevicePointer(memory_.get()), bytes_.data(),
                                                                  bytes_.size(), gpu_.stream.get()),
                                "cuMemcpyHtoDAsync"));
    CHECK_OK(gpu_.Synchronise());
  }

  char* device() const { return static_cast<char*>(memory_.get()); }
  /// Copies what the device has now.
  const std::vector<unsigned char>& Fetch() {
    const ContextGuard guard(gpu_.driver, gpu_.device->context());
    CHECK_OK(gpu_.driver->Check(gpu_.driver->cuMemcpyDtoHAsync_v2(bytes_.data(), ToDevicePointer(memory_.get()),
                                                                  bytes_.size(), gpu_.stream.get()),
                                "cuMemcpyDtoHAsync"));
    CHECK_OK(gpu_.Synchronise());
    return bytes_;
  }

 private:
  const Gpu& gpu_;
  std::vector<unsigned char> bytes_;
  DeviceMemory memory_;
};

std::vector<unsigned char> RandomBytes(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<unsigned char> bytes(count);
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random());
  return bytes;
}

TEST(EveryKernelGivesWhatItsHostVersionGives) {
  const Gpu gpu;
  for (const KernelTypes& types : kKernelTypes) {
    const size_t from_bytes = SizeOf(types.from), to_bytes = SizeOf(types.to);
    // All of 16-bit numbers, at every alignment of both sides.
    constexpr size_t kElements = 65536;
    std::vector<unsigned char> values = RandomBytes((kElements + 16) * from_bytes, 1);
    if (from_bytes == 2) {
      for (size_t i = 0; i < kElements + 16; ++i) {
        const auto value = static_cast<uint16_t>(i);
        std::memcpy(&values[2 * i], &value, 2);
      }
    }
    Array source(gpu, values);
    for (const double factor : {1.0, -1.0 / 3}) {
      for (size_t from = 0; from < 16 / from_bytes; from += 3) {
        for (size_t to = 0; to < 16 / to_bytes; to += 5) {
          std::vector<unsigned char> expected((kElements + 16) * to_bytes);
          Array destination(gpu, expected);
          const PackedTensor tensor = {source.device() + from * from_bytes, kElements, to * to_bytes, factor};
          if (types.from == types.to) {
            CHECK_OK(
                gpu.kernels->Scale(gpu.stream.get(), types.from,
                                   {{tensor.tensor, destination.device() + tensor.offset, tensor.elements, factor}}));
          } else {
            CHECK_OK(gpu.kernels->Pack(gpu.stream.get(), types.from, types.to, {tensor}, destination.device()));
          }
          RunOnHost(FindHostKernel(types.kernel),
                    {{&values[from * from_bytes], &expected[to * to_bytes], kElements, factor}});
          const size_t different =
              FirstDifference(types.to, destination.Fetch().data(), expected.data(), kElements + 16);
          if (different != kElements + 16)
            testing::Fail(__FILE__, __LINE__, Concat(types.kernel, " is wrong at element ", different));
        }
      }
    }
  }
}

TEST(ManyTensorsThereAndBackWithoutWaiting) {
  const Gpu gpu;
  std::mt19937 random(2);
  // More rounds than there are tables on the device, each with other sizes.
  constexpr int kRounds = 20;
  struct Round {
    std::vector<PackedTensor> from, to;
  };
  constexpr size_t kBytes = 4 << 20;
  Array source(gpu, RandomBytes(kBytes, 3));
  Array buffer(gpu, std::vector<unsigned char>(kBytes + 16 * 4000));
  std::vector<std::unique_ptr<Array>> results;
  std::vector<Round> rounds(kRounds);
  for (int index = 0; index < kRounds; ++index) {
    results.push_back(std::make_unique<Array>(gpu, std::vector<unsigned char>(kBytes)));
    size_t start = 0, offset = 0;
    while (start < kBytes) {
      const size_t wanted = random() % 10 == 0 ? random() % 300000 : 4 * (random() % 500);
      const size_t bytes = std::min(kBytes - start, wanted / 4 * 4);
      rounds[index].from.push_back({source.device() + start, bytes / 4, offset, 1.0});
      rounds[index].to.push_back({results[index]->device() + start, bytes / 4, offset, 1.0});
      start += bytes;
      offset = AlignForPacking(offset + bytes);
    }
  }
  for (Round& round : rounds) {
    CHECK_OK(gpu.kernels->Pack(gpu.stream.get(), DataType::kFloat32, DataType::kFloat32, round.from, buffer.device()));
    CHECK_OK(gpu.kernels->Unpack(gpu.stream.get(), DataType::kFloat32, DataType::kFloat32, round.to, buffer.device()));
  }
  const std::vector<unsigned char>& expected = source.Fetch();
  for (const auto& result : results) CHECK(result->Fetch() == expected);
}

}  // namespace
}  // namespace tf_collectives::cuda
