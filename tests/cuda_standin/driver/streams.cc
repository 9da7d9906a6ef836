#include "driver/streams.h"

#include <atomic>
#include <random>
#include <set>
#include <thread>
#include <utility>

#include "common/settings.h"
#include "driver/devices.h"

namespace cuda_standin {
namespace {

std::atomic<uint64_t> next_id{1};
thread_local Fault fault_of_next_task;

// A random pause before each task makes it likely that a missing wait shows.
void Pause() {
  const int longest = GetSettings().jitter_microseconds;
  if (longest == 0) return;
  thread_local std::minstd_rand generator(std::random_device{}());
  std::this_thread::sleep_for(std::chrono::microseconds(generator() % longest));
}

}  // namespace

Stream::Stream(int device, unsigned flags, int priority)
    : device_(device), flags_(flags), priority_(priority), id_(next_id++) {}

void Stream::Push(std::function<void()> run) {
  Task task{PositionsToWaitFor(), TakeFaultOfNextTask(), std::move(run)};
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!started_) {
    started_ = true;
    std::thread([self = shared_from_this()] { self->Run(); }).detach();
  }
  tasks_.push_back(std::move(task));
  ++pushed_;
  changed_.notify_all();
}

bool Stream::IsIdle() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return finished_ == pushed_;
}

void Stream::Wait() const { Now().Wait(); }

void Stream::Close() {
  const std::lock_guard<std::mutex> lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

void Stream::Position::Wait() const {
  std::unique_lock<std::mutex> lock(stream->mutex_);
  stream->changed_.wait(lock, [this] { return stream->finished_ >= pushed; });
}

Stream::Position Stream::Now() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return {shared_from_this(), pushed_};
}

// The legacy default stream waits for the device's blocking streams, and they wait for it.
std::vector<Stream::Position> Stream::PositionsToWaitFor() const {
  std::vector<Position> positions;
  if (flags_ & CU_STREAM_NON_BLOCKING) return positions;
  const Device& device = *DeviceAt(device_);
  if (this != device.default_stream.get()) {
    if (!device.default_stream->IsIdle()) positions.push_back(device.default_stream->Now());
    return positions;
  }
  for (const auto& stream : StreamsOf(device_))
    if (stream.get() != this && !(stream->flags_ & CU_STREAM_NON_BLOCKING) && !stream->IsIdle())
      positions.push_back(stream->Now());
  return positions;
}

void Stream::Run() {
  SetCurrentDevice(device_);
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return closed_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    {
      Task task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      RunTask(task);
    }
    lock.lock();
    ++finished_;
    changed_.notify_all();
  }
}

void Stream::RunTask(Task& task) const {
  if (task.fault.action == Fault::Action::kHang) HangForever();
  if (task.fault.action == Fault::Action::kDelay)
    std::this_thread::sleep_for(std::chrono::milliseconds(task.fault.number));
  for (const Position& position : task.after) position.Wait();
  Pause();
  task.run();
}

void Event::Record(Stream& stream) {
  uint64_t record = 0;
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    record = ++state_->recorded;
  }
  stream.Push([state = state_, record] {
    const std::lock_guard<std::mutex> lock(state->mutex);
    state->reached = std::max(state->reached, record);
    state->time = std::chrono::steady_clock::now();
    state->changed.notify_all();
  });
}

// As on a device, what counts is the latest record at the time of this call, and there may be none.
void Event::MakeWait(Stream& stream) {
  uint64_t record = 0;
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    record = state_->recorded;
  }
  stream.Push([state = state_, record] {
    std::unique_lock<std::mutex> lock(state->mutex);
    state->changed.wait(lock, [&] { return state->reached >= record; });
  });
}

bool Event::IsReached() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->reached >= state_->recorded;
}

void Event::Wait() const {
  std::unique_lock<std::mutex> lock(state_->mutex);
  const uint64_t record = state_->recorded;
  state_->changed.wait(lock, [&] { return state_->reached >= record; });
}

std::chrono::steady_clock::time_point Event::time() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->time;
}

void SetFaultOfNextTask(const Fault& fault) { fault_of_next_task = fault; }

Fault TakeFaultOfNextTask() { return std::exchange(fault_of_next_task, Fault{}); }

}  // namespace cuda_standin
