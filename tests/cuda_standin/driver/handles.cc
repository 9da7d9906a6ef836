// The handles that the program holds. Each is looked up, so that one that was destroyed is noticed.

#include <map>
#include <mutex>

#include "driver/devices.h"
#include "driver/streams.h"

namespace cuda_standin {
namespace {

template <typename Object>
class Handles {
 public:
  void* Add(std::shared_ptr<Object> object) {
    const std::lock_guard<std::mutex> lock(mutex_);
    void* handle = object.get();
    objects_[handle] = std::move(object);
    return handle;
  }
  std::shared_ptr<Object> Find(void* handle) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }
  std::shared_ptr<Object> Remove(void* handle) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = objects_.find(handle);
    if (found == objects_.end()) return nullptr;
    std::shared_ptr<Object> object = std::move(found->second);
    objects_.erase(found);
    return object;
  }
  std::vector<std::shared_ptr<Object>> All() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<std::shared_ptr<Object>> all;
    for (const auto& [handle, object] : objects_) all.push_back(object);
    return all;
  }

 private:
  mutable std::mutex mutex_;
  std::map<void*, std::shared_ptr<Object>> objects_;
};

Handles<Stream>& Streams() {
  static auto* handles = new Handles<Stream>;
  return *handles;
}

Handles<Event>& Events() {
  static auto* handles = new Handles<Event>;
  return *handles;
}

thread_local bool in_host_function = false;

}  // namespace

std::shared_ptr<Stream> FindStream(CUstream handle) {
  if (handle != nullptr && handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD) return Streams().Find(handle);
  Device* device = DeviceAt(CurrentDevice());
  return device == nullptr ? nullptr : device->default_stream;
}

CUstream AddStream(std::shared_ptr<Stream> stream) { return static_cast<CUstream>(Streams().Add(std::move(stream))); }

bool RemoveStream(CUstream handle) {
  const std::shared_ptr<Stream> stream = Streams().Remove(handle);
  if (stream == nullptr) return false;
  stream->Close();
  return true;
}

std::vector<std::shared_ptr<Stream>> StreamsOf(int device) {
  std::vector<std::shared_ptr<Stream>> streams;
  for (std::shared_ptr<Stream>& stream : Streams().All())
    if (stream->device() == device) streams.push_back(std::move(stream));
  streams.push_back(DeviceAt(device)->default_stream);
  return streams;
}

std::shared_ptr<Event> FindEvent(CUevent handle) { return Events().Find(handle); }

CUevent AddEvent(std::shared_ptr<Event> event) { return static_cast<CUevent>(Events().Add(std::move(event))); }

bool RemoveEvent(CUevent handle) { return Events().Remove(handle) != nullptr; }

bool IsInHostFunction() { return in_host_function; }

void RunHostFunction(const std::function<void()>& function) {
  in_host_function = true;
  function();
  in_host_function = false;
}

}  // namespace cuda_standin
