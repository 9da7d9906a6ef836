#include "shared_memory/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "text.h"

namespace tf_collectives {
namespace {

/// A descriptor of fresh memory: a memfd, or a file without a name where memfd_create is blocked.
int OpenAnonymousFile() {
  const int descriptor = memfd_create("tf_collectives", MFD_CLOEXEC);
  if (descriptor >= 0) return descriptor;
  return open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

}  // namespace

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    Close();
    descriptor_ = other.Release();
  }
  return *this;
}

int FileDescriptor::Release() { return std::exchange(descriptor_, -1); }

void FileDescriptor::Close() {
  if (descriptor_ >= 0) close(Release());
}

Segment::Segment(Segment&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Segment& Segment::operator=(Segment&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Segment::~Segment() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

Status Segment::Create(size_t bytes, Segment* segment, FileDescriptor* descriptor) {
  *descriptor = FileDescriptor(OpenAnonymousFile());
  const int error = descriptor->valid() ? posix_fallocate(descriptor->get(), 0, static_cast<off_t>(bytes)) : errno;
  if (error != 0) {
    return {StatusCode::kResourceExhausted,
            Concat("Cannot reserve ", bytes,
                   " bytes of shared memory for the ranks of this machine: ", std::strerror(error),
                   ". Free memory, raise the container's memory or /dev/shm limit, or lower TFC_CHUNK_BYTES.")};
  }
  return Map(*descriptor, bytes, segment);
}

Status Segment::Map(const FileDescriptor& descriptor, size_t bytes, Segment* segment) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, descriptor.get(), 0);
  if (data == MAP_FAILED) {
    return {StatusCode::kResourceExhausted,
            Concat("Cannot map ", bytes, " bytes of shared memory: ", std::strerror(errno),
                   ". Free memory or raise the limit on address space.")};
  }
  // A forked child must not take part in collectives, so it doesn't get the memory either.
  madvise(data, bytes, MADV_DONTFORK);
  Segment mapped;
  mapped.data_ = data;
  mapped.bytes_ = bytes;
  *segment = std::move(mapped);
  return Status::Ok();
}

}  // namespace tf_collectives
