#include "nccl/meeting_place.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>

#include "common/settings.h"

namespace cuda_standin {

struct alignas(64) MeetingPlace::Header {
  std::atomic<int> size;
  std::atomic<int> joined;
  std::atomic<int> arrived;
  /// The number of barriers that all ranks have reached.
  std::atomic<uint32_t> round;
  /// Changes whenever one who waits had better look.
  std::atomic<uint32_t> bell;
  /// 0, 1 while the text is written, 2.
  std::atomic<int> failure;
  char failure_text[2048];
};

struct alignas(64) MeetingPlace::Slot {
  std::atomic<int> taken;
  int physical_device;
  Signature signature;
};

namespace {

// Waits sleep this long at most before they look again for a reason to stop.
constexpr long kSliceNanoseconds = 20'000'000;

void Sleep(std::atomic<uint32_t>& word, uint32_t while_it_is) {
  const timespec slice{0, kSliceNanoseconds};
  syscall(SYS_futex, &word, FUTEX_WAIT, while_it_is, &slice, nullptr, 0);
}

void Wake(std::atomic<uint32_t>& word) {
  word.fetch_add(1);
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

std::chrono::steady_clock::time_point NcclDeadline() {
  return std::chrono::steady_clock::now() +
         std::chrono::milliseconds(static_cast<int64_t>(1000 * GetSettings().nccl_timeout_seconds));
}

size_t Ring::Write(const char* from, size_t bytes) {
  const uint64_t begin = written.load();
  bytes = std::min<size_t>(bytes, kBytes - (begin - read.load()));
  for (size_t index = 0; index < bytes; ++index) data[(begin + index) % kBytes] = from[index];
  written.store(begin + bytes);
  return bytes;
}

size_t Ring::Read(char* to, size_t bytes) {
  const uint64_t begin = read.load();
  bytes = std::min<size_t>(bytes, written.load() - begin);
  for (size_t index = 0; index < bytes; ++index) to[index] = data[(begin + index) % kBytes];
  read.store(begin + bytes);
  return bytes;
}

MeetingPlace::~MeetingPlace() {
  if (header_ != nullptr) munmap(header_, bytes_);
}

std::unique_ptr<MeetingPlace> MeetingPlace::Join(const std::string& path, int rank, int size, int physical_device,
                                                 const Interruption& interruption, Reason* reason) {
  std::unique_ptr<MeetingPlace> place(new MeetingPlace(rank, size));
  *reason = place->Map(path);
  if (reason->empty()) *reason = place->Enter(physical_device);
  if (reason->empty()) {
    Header& header = *place->header_;
    if (++header.joined == size) unlink(path.c_str());
    Wake(header.bell);
    *reason = place->WaitUntil([&] { return header.joined >= size; }, interruption, "to join the communicator");
  }
  if (reason->empty()) return place;
  unlink(path.c_str());
  return nullptr;
}

MeetingPlace::Reason MeetingPlace::Map(const std::string& path) {
  const auto count = static_cast<size_t>(size_);
  const size_t slots = sizeof(Header);
  const size_t rings = slots + sizeof(Slot) * count;
  const size_t buffers = rings + sizeof(Ring) * count * count;
  bytes_ = buffers + kBufferBytes * count;
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes_)) != 0)
    return "can't open " + path + ": " + std::strerror(errno);
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) return "can't map " + path + ": " + std::strerror(errno);
  char* begin = static_cast<char*>(memory);
  header_ = reinterpret_cast<Header*>(begin);
  slots_ = reinterpret_cast<Slot*>(begin + slots);
  rings_ = reinterpret_cast<Ring*>(begin + rings);
  buffers_ = begin + buffers;
  return {};
}

MeetingPlace::Reason MeetingPlace::Enter(int physical_device) {
  int expected = 0;
  if (!header_->size.compare_exchange_strong(expected, size_) && expected != size_) {
    Report("rank " + std::to_string(rank_) + " was told that there are " + std::to_string(size_) +
           " ranks, and another one that there are " + std::to_string(expected));
    return Reported();
  }
  if (slot(rank_).taken.exchange(1) != 0) {
    Report("there are two ranks " + std::to_string(rank_));
    return Reported();
  }
  slot(rank_).physical_device = physical_device;
  return {};
}

MeetingPlace::Reason MeetingPlace::WaitUntil(const std::function<bool()>& condition, const Interruption& interruption,
                                             const char* what) {
  const auto deadline = NcclDeadline();
  for (;;) {
    const uint32_t bell = header_->bell.load();
    if (Reason reported = Reported(); !reported.empty()) return reported;
    if (condition()) return {};
    if (interruption()) return "the communicator was aborted";
    if (std::chrono::steady_clock::now() > deadline) {
      Report("rank " + std::to_string(rank_) + " of " + std::to_string(size_) + " waited in vain for the others " +
             what);
      return Reported();
    }
    Sleep(header_->bell, bell);
  }
}

MeetingPlace::Reason MeetingPlace::Barrier(const Interruption& interruption) {
  const uint32_t round = header_->round.load();
  if (header_->arrived.fetch_add(1) + 1 == size_) {
    header_->arrived = 0;
    ++header_->round;
    Wake(header_->bell);
    return Reported();
  }
  return WaitUntil([&] { return header_->round.load() != round; }, interruption, "in a collective");
}

void MeetingPlace::Report(const std::string& text) {
  int none = 0;
  if (header_->failure.compare_exchange_strong(none, 1)) {
    const size_t length = std::min(text.size(), sizeof header_->failure_text - 1);
    std::memcpy(header_->failure_text, text.data(), length);
    header_->failure_text[length] = '\0';
    header_->failure = 2;
  }
  Wake(header_->bell);
}

MeetingPlace::Reason MeetingPlace::Reported() const {
  if (header_->failure.load() == 0) return {};
  while (header_->failure.load() != 2) usleep(100);
  return header_->failure_text;
}

int MeetingPlace::RankOnSameDevice() const {
  for (int rank = 0; rank < size_; ++rank)
    if (rank != rank_ && slot(rank).physical_device == slot(rank_).physical_device) return rank;
  return -1;
}

MeetingPlace::Slot& MeetingPlace::slot(int rank) const { return slots_[rank]; }
Signature& MeetingPlace::signature(int rank) { return slot(rank).signature; }
char* MeetingPlace::buffer(int rank) { return buffers_ + kBufferBytes * static_cast<size_t>(rank); }
Ring& MeetingPlace::ring(int from, int to) { return rings_[from * size_ + to]; }

}  // namespace cuda_standin
