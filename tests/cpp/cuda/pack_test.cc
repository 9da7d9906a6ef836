#include "cuda/pack.h"

#include <cstdint>
#include <random>
#include <vector>

#include "cuda/fake_driver.h"
#include "cuda/kernel_images.h"
#include "cuda/kernels/numbers.h"
#include "testing.h"

namespace tf_collectives::cuda {
namespace {

/// Float tensors and a buffer to pack them into.
struct Batch {
  explicit Batch(size_t count, size_t element_bytes = sizeof(float)) {
    std::mt19937 random(7);
    for (size_t i = 0; i < count; ++i) {
      std::vector<float>& values = tensors.emplace_back(random() % 300);
      for (float& value : values) value = static_cast<float>(random()) / 1e9F - 2;
    }
    size_t offset = 0;
    for (std::vector<float>& values : tensors) {
      packed.push_back({values.data(), values.size(), offset, 1.0});
      offset = AlignForPacking(offset + values.size() * element_bytes);
    }
    buffer.resize(offset / sizeof(uint64_t));
  }

  std::vector<std::vector<float>> tensors;
  std::vector<PackedTensor> packed;
  std::vector<uint64_t> buffer;
};

// The fake driver doesn't look into images, so that these tests need no compiler for kernels.
const std::vector<KernelImage> kImages = {{86, false, "", 0}, {70, true, "", 0}};

std::unique_ptr<PackKernels> CreateKernels(const Device* device) {
  std::unique_ptr<PackKernels> kernels;
  CHECK_OK(PackKernels::Create(device, kImages, &kernels));
  return kernels;
}

TEST(PacksAndUnpacksInOneLaunchEach) {
  const auto device = OpenFakeDevice();
  for (const size_t count : {size_t{1}, size_t{kInlineSegments} / 2, size_t{3000}}) {
    const auto kernels = CreateKernels(device.get());
    Batch batch(count);
    const auto before = batch.tensors;
    DriverLog().launches.clear();
    CHECK_OK(kernels->Pack(nullptr, DataType::kFloat32, DataType::kFloat32, batch.packed, batch.buffer.data()));
    for (auto& tensor : batch.tensors) std::fill(tensor.begin(), tensor.end(), 0.0F);
    CHECK_OK(kernels->Unpack(nullptr, DataType::kFloat32, DataType::kFloat32, batch.packed, batch.buffer.data()));
    CHECK(batch.tensors == before);
    CHECK_EQ(DriverLog().launches.size(), size_t{2});
    CHECK_EQ(DriverLog().launches[0], "tfc_copy");
  }
}

TEST(SendsOnlyLongTablesToTheDevice) {
  const auto device = OpenFakeDevice();
  const auto kernels = CreateKernels(device.get());
  std::vector<float> values(kInlineSegments + 1, 3.0F), results(kInlineSegments + 1);
  std::vector<ScaledTensor> tensors;
  for (size_t i = 0; i < kInlineSegments; ++i) tensors.push_back({&values[i], &results[i], 1, 2.0});
  CHECK_OK(kernels->Scale(nullptr, DataType::kFloat32, tensors));
  CHECK_EQ(DriverLog().uploads, 0);
  tensors.push_back({&values.back(), &results.back(), 1, 2.0});
  CHECK_OK(kernels->Scale(nullptr, DataType::kFloat32, tensors));
  CHECK_EQ(DriverLog().uploads, 1);
  CHECK_EQ(results, std::vector<float>(kInlineSegments + 1, 6.0F));
}

TEST(ReusesTheMemoryOfTablesWhenTheirLaunchHasRun) {
  const auto device = OpenFakeDevice();
  {
    const auto kernels = CreateKernels(device.get());
    Batch batch(2 * kInlineSegments);
    for (int i = 0; i < 20; ++i) {
      CHECK_OK(kernels->Pack(nullptr, DataType::kFloat32, DataType::kFloat32, batch.packed, batch.buffer.data()));
    }
    CHECK_EQ(DriverLog().uploads, 20);
    CHECK_EQ(DriverLog().allocations, 8);
    CHECK_EQ(DriverLog().event_waits, 12);
    // A longer table needs more.
    Batch longer(3000);
    CHECK_OK(kernels->Pack(nullptr, DataType::kFloat32, DataType::kFloat32, longer.packed, longer.buffer.data()));
    CHECK_EQ(DriverLog().allocations, 9);
  }
  CHECK_EQ(DriverLog().alive, 0);
}

TEST(PacksFloat32AsBfloat16AndBack) {
  const auto device = OpenFakeDevice();
  const auto kernels = CreateKernels(device.get());
  Batch batch(50, sizeof(Bfloat16));
  const auto before = batch.tensors;
  for (PackedTensor& tensor : batch.packed) tensor.factor = 0.5;
  CHECK_OK(kernels->Pack(nullptr, DataType::kFloat32, DataType::kBfloat16, batch.packed, batch.buffer.data()));
  for (PackedTensor& tensor : batch.packed) tensor.factor = 4.0;
  CHECK_OK(kernels->Unpack(nullptr, DataType::kFloat32, DataType::kBfloat16, batch.packed, batch.buffer.data()));
  for (size_t i = 0; i < before.size(); ++i) {
    for (size_t k = 0; k < before[i].size(); ++k) {
      Bfloat16 narrow;
      Narrow(before[i][k] * 0.5F, &narrow);
      CHECK(batch.tensors[i][k] == Widen(narrow) * 4.0F);
    }
  }
  CHECK_EQ(DriverLog().launches,
           (std::vector<std::string>{"tfc_convert_float32_to_bfloat16", "tfc_convert_bfloat16_to_float32"}));
}

TEST(ScalesInPlaceAndElsewhereEachTensorByItsFactor) {
  const auto device = OpenFakeDevice();
  const auto kernels = CreateKernels(device.get());
  std::vector<int64_t> a = {1, 2, 9007199254740993}, b = {10, 20, 30}, c(3);
  CHECK_OK(kernels->Scale(nullptr, DataType::kInt64,
                          {{a.data(), a.data(), a.size(), 1.0}, {b.data(), c.data(), b.size(), 0.25}}));
  CHECK_EQ(a, (std::vector<int64_t>{1, 2, 9007199254740993}));
  CHECK_EQ(c, (std::vector<int64_t>{2, 5, 7}));
  CHECK_EQ(DriverLog().launches, std::vector<std::string>{"tfc_scale_int64"});
}

TEST(EmptyTensorsNeedNoLaunch) {
  const auto device = OpenFakeDevice();
  const auto kernels = CreateKernels(device.get());
  CHECK_OK(kernels->Scale(nullptr, DataType::kFloat32, {}));
  CHECK_OK(kernels->Pack(nullptr, DataType::kFloat32, DataType::kFloat32, {{nullptr, 0, 0, 1.0}}, nullptr));
  CHECK(DriverLog().launches.empty());
}

TEST(CopiesEveryTypeAndSaysWhatItCantScaleOrConvert) {
  const auto device = OpenFakeDevice();
  const auto kernels = CreateKernels(device.get());
  for (int i = 0; i <= static_cast<int>(DataType::kComplex128); ++i) {
    const auto dtype = static_cast<DataType>(i);
    std::vector<unsigned char> from(5 * SizeOf(dtype), static_cast<unsigned char>(i)), to(from.size());
    CHECK(PackKernels::CanConvert(dtype, dtype));
    CHECK_OK(kernels->Pack(nullptr, dtype, dtype, {{from.data(), 5, 0, 1.0}}, to.data()));
    CHECK(from == to);
    const Status status = kernels->Scale(nullptr, dtype, {{from.data(), to.data(), 5, 2.0}});
    CHECK_EQ(PackKernels::CanScale(dtype), IsReducible(dtype));
    CHECK_EQ(status.ok(), IsReducible(dtype));
    if (!status.ok()) CHECK_CONTAINS(status.message(), std::string("Tensors of type ") + NameOf(dtype));
  }
  float value = 1;
  const Status status = kernels->Pack(nullptr, DataType::kFloat32, DataType::kInt32, {{&value, 1, 0, 1.0}}, &value);
  CHECK_CONTAINS(status.message(), "can't be converted to int32");
  CHECK(!PackKernels::CanConvert(DataType::kFloat64, DataType::kFloat16));
}

TEST(ReportsALaunchThatFails) {
  const auto device = OpenFakeDevice();
  const auto kernels = CreateKernels(device.get());
  float value = 1;
  DriverLog().next_error = CUDA_ERROR_INVALID_IMAGE;
  const Status status = kernels->Scale(nullptr, DataType::kFloat32, {{&value, &value, 1, 2.0}});
  CHECK_CONTAINS(status.message(), "cuLaunchKernel failed: CUDA_ERROR_FAKE");
}

TEST(TakesTheNextImageWhereTheDriverRefusesTheBest) {
  const auto device = OpenFakeDevice();
  DriverLog().next_error = CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
  CHECK(CreateKernels(device.get()) != nullptr);
}

TEST(SaysWhyThereAreNoKernels) {
  const auto device = OpenFakeDevice();
  std::unique_ptr<PackKernels> kernels;
  CHECK_CONTAINS(PackKernels::Create(device.get(), {}, &kernels).message(), "pip install 'nvidia-cuda-nvrtc-cu12");
  CHECK_CONTAINS(PackKernels::Create(device.get(), {{90, true, "", 0}}, &kernels).message(),
                 "Fake GPU has the compute capability 8.6");
  DriverLog().next_error = CUDA_ERROR_NO_BINARY_FOR_GPU;
  CHECK_CONTAINS(PackKernels::Create(device.get(), {{86, false, "", 0}}, &kernels).message(),
                 "Update the NVIDIA driver");
  CHECK(kernels == nullptr);
}

TEST(ChoosesImagesForTheDevice) {
  const std::vector<KernelImage> images = {
      {70, false, nullptr, 0}, {80, false, nullptr, 0}, {86, false, nullptr, 0},
      {90, false, nullptr, 0}, {70, true, nullptr, 0},
  };
  const auto choose = [&](int compute_capability) {
    std::vector<int> chosen;
    for (const KernelImage* image : ImagesFor(images, compute_capability))
      chosen.push_back(image->is_ptx ? -image->architecture : image->architecture);
    return chosen;
  };
  CHECK_EQ(choose(61), std::vector<int>{});
  CHECK_EQ(choose(72), (std::vector<int>{70, -70}));
  CHECK_EQ(choose(80), (std::vector<int>{80, -70}));
  CHECK_EQ(choose(89), (std::vector<int>{86, 80, -70}));
  CHECK_EQ(choose(120), std::vector<int>{-70});
}

TEST(TheBuildEmbedsWhatItCompiled) {
  // All of them or, without a compiler, none.
  for (const KernelImage& image : KernelImages()) {
    const auto* text = static_cast<const char*>(image.data);
    CHECK(image.bytes > 1000);
    CHECK(image.is_ptx ? text[image.bytes - 1] == '\0' || text[image.bytes] == '\0'
                       : std::string(text + 1, 3) == "ELF");
  }
}

}  // namespace
}  // namespace tf_collectives::cuda
