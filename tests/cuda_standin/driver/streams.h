#pragma once

#include <cuda.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "common/faults.h"

namespace cuda_standin {

/// A queue of tasks and the thread that runs them one after the other.
class Stream : public std::enable_shared_from_this<Stream> {
 public:
  Stream(int device, unsigned flags, int priority);

  /// Puts a task at the end of the stream. It also waits for what the rules of the legacy default stream ask for.
  void Push(std::function<void()> task);
  bool IsIdle() const;
  void Wait() const;
  /// Lets the thread end once it has run all tasks.
  void Close();

  int device() const { return device_; }
  unsigned flags() const { return flags_; }
  int priority() const { return priority_; }
  uint64_t id() const { return id_; }

 private:
  /// The tasks that a stream had been given at some moment.
  struct Position {
    std::shared_ptr<const Stream> stream;
    uint64_t pushed = 0;
    void Wait() const;
  };
  struct Task {
    std::vector<Position> after;
    Fault fault;
    std::function<void()> run;
  };

  Position Now() const;
  std::vector<Position> PositionsToWaitFor() const;
  void Run();
  void RunTask(Task& task) const;

  const int device_;
  const unsigned flags_;
  const int priority_;
  const uint64_t id_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::deque<Task> tasks_;
  uint64_t pushed_ = 0;
  uint64_t finished_ = 0;
  bool started_ = false;
  bool closed_ = false;
};

/// The state of an event, which its pending records and waits keep alive.
class Event {
 public:
  Event(int device, unsigned flags) : device_(device), flags_(flags) {}

  void Record(Stream& stream);
  void MakeWait(Stream& stream);
  bool IsReached() const;
  void Wait() const;
  std::chrono::steady_clock::time_point time() const;
  int device() const { return device_; }
  unsigned flags() const { return flags_; }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    uint64_t recorded = 0;
    uint64_t reached = 0;
    std::chrono::steady_clock::time_point time;
  };

  const int device_;
  const unsigned flags_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

/// Null for a handle that isn't, or no longer, a stream; the legacy default stream of the current device for 0 to 2.
std::shared_ptr<Stream> FindStream(CUstream handle);
CUstream AddStream(std::shared_ptr<Stream> stream);
bool RemoveStream(CUstream handle);
std::vector<std::shared_ptr<Stream>> StreamsOf(int device);

std::shared_ptr<Event> FindEvent(CUevent handle);
CUevent AddEvent(std::shared_ptr<Event> event);
bool RemoveEvent(CUevent handle);

bool IsInHostFunction();
void RunHostFunction(const std::function<void()>& function);

/// What a fault asks for happens to the next task that this thread gives to a stream.
void SetFaultOfNextTask(const Fault& fault);
Fault TakeFaultOfNextTask();

}  // namespace cuda_standin
