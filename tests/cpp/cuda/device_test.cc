#include "cuda/device.h"

#include <string>
#include <thread>
#include <vector>

#include "cuda/fake_driver.h"
#include "testing.h"

namespace tf_collectives::cuda {
namespace {

TEST(KnowsItsDevice) {
  {
    const auto device = OpenFakeDevice();
    CHECK_EQ(device->name(), "Fake GPU");
    CHECK_EQ(device->bus_id(), "0000:3b:00.0");
    CHECK_EQ(device->uuid()[15], 'f');
    CHECK_EQ(device->compute_capability(), 86);
    CHECK_EQ(device->multiprocessors(), 84);
  }
  CHECK_EQ(DriverLog().contexts_released, 1);
}

TEST(RefusesADeviceThatIsNotThere) {
  std::unique_ptr<Device> device;
  const Status status = Device::Open(FakeDriver(), 1, &device);
  CHECK(status.code() == StatusCode::kInvalidArgument);
  CHECK_CONTAINS(status.message(), "GPU 1 was asked for, and this process sees 1 of them");
  CHECK(device == nullptr);
}

TEST(TellsTheDeviceOfAStream) {
  const auto device = OpenFakeDevice();
  int ordinal = -1;
  CHECK_OK(Device::OrdinalOf(FakeDriver(), nullptr, &ordinal));
  CHECK_EQ(ordinal, 0);
}

TEST(GivesBackWhatItCreated) {
  const auto device = OpenFakeDevice();
  {
    Stream stream;
    Event event;
    DeviceMemory memory;
    PinnedMemory pinned;
    CHECK_OK(device->CreateStream(&stream));
    CHECK_OK(device->CreateEvent(&event));
    CHECK_OK(device->Allocate(100, "a test", &memory));
    CHECK_OK(device->AllocatePinned(100, "a test", &pinned));
    CHECK_EQ(DriverLog().alive, 4);
  }
  CHECK_EQ(DriverLog().alive, 0);
  CHECK_EQ(DriverLog().contexts_pushed, DriverLog().contexts_popped);
}

TEST(SaysWhatMemoryWasFor) {
  const auto device = OpenFakeDevice();
  DeviceMemory memory;
  DriverLog().next_error = CUDA_ERROR_OUT_OF_MEMORY;
  const Status status = device->Allocate(1024, "the fusion buffer", &memory);
  CHECK(status.code() == StatusCode::kResourceExhausted);
  CHECK_CONTAINS(status.message(), "cuMemAlloc of 1024 bytes for the fusion buffer failed: CUDA_ERROR_FAKE (made up).");
  CHECK_CONTAINS(status.message(), "TFC_FUSION_THRESHOLD");
}

TEST(EventsAreUsedAgain) {
  const auto device = OpenFakeDevice();
  {
    EventPool pool(device.get());
    for (int round = 0; round < 3; ++round) {
      PooledEvent a, b;
      CHECK_OK(pool.Acquire(&a));
      CHECK_OK(pool.Acquire(&b));
      CHECK(a.get() != b.get());
    }
    CHECK_EQ(DriverLog().events_created, 2);
  }
  CHECK_EQ(DriverLog().alive, 0);
}

TEST(AnEventPoolServesSeveralThreads) {
  const auto device = OpenFakeDevice();
  EventPool pool(device.get());
  std::vector<PooledEvent> first(4);
  for (PooledEvent& event : first) CHECK_OK(pool.Acquire(&event));
  first.clear();
  testing::RunRanks(4, [&](int) {
    for (int i = 0; i < 1000; ++i) {
      PooledEvent event;
      (void)pool.Acquire(&event).ok();
    }
  });
  CHECK_EQ(DriverLog().events_created, 4);
}

TEST(AnEventIsDoneOrNotOrWrong) {
  bool done = true;
  DriverLog().next_error = CUDA_ERROR_NOT_READY;
  CHECK_OK(QueryEvent(FakeDriver(), nullptr, &done));
  CHECK(!done);
  CHECK_OK(QueryEvent(FakeDriver(), nullptr, &done));
  CHECK(done);
  DriverLog().next_error = CUDA_ERROR_INVALID_IMAGE;
  CHECK_CONTAINS(QueryEvent(FakeDriver(), nullptr, &done).message(), "cuEventQuery failed");
  CHECK(!done);
}

}  // namespace
}  // namespace tf_collectives::cuda
