#include "driver/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "common/settings.h"

namespace cuda_standin {
namespace {

// Like the real driver's allocations.
constexpr size_t kAlignment = 512;
constexpr size_t kPage = 4096;

}  // namespace

DeviceMemory::DeviceMemory(size_t bytes) : size_(bytes) {
  const int file = memfd_create("cuda_standin", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0)
    Die(std::string("no memory file for a device: ") + std::strerror(errno));
  void* view = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  void* program = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (view == MAP_FAILED || program == MAP_FAILED)
    Die(std::string("no address space for a device: ") + std::strerror(errno));
  close(file);
  view_ = static_cast<char*>(view);
  base_ = reinterpret_cast<CUdeviceptr>(program);
  free_[0] = bytes;
}

CUdeviceptr DeviceMemory::Allocate(size_t bytes) {
  if (bytes > size_) return 0;
  const size_t reserved = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto hole = free_.begin(); hole != free_.end(); ++hole) {
    const auto [offset, size] = *hole;
    if (size < reserved) continue;
    free_.erase(hole);
    if (size > reserved) free_[offset + reserved] = size - reserved;
    used_[offset] = {bytes, reserved};
    used_bytes_ += reserved;
    return base_ + offset;
  }
  return 0;
}

bool DeviceMemory::Free(CUdeviceptr pointer) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto block = used_.find(pointer - base_);
  if (block == used_.end()) return false;
  const size_t offset = block->first;
  const size_t reserved = block->second.reserved;
  used_.erase(block);
  used_bytes_ -= reserved;
  const size_t first_page = (offset + kPage - 1) / kPage * kPage;
  const size_t end_page = (offset + reserved) / kPage * kPage;
  if (first_page < end_page) madvise(view_ + first_page, end_page - first_page, MADV_REMOVE);

  auto hole = free_.emplace(offset, reserved).first;
  if (const auto next = std::next(hole); next != free_.end() && offset + reserved == next->first) {
    hole->second += next->second;
    free_.erase(next);
  }
  if (hole != free_.begin()) {
    const auto previous = std::prev(hole);
    if (previous->first + previous->second == offset) {
      previous->second += hole->second;
      free_.erase(hole);
    }
  }
  return true;
}

std::optional<Range> DeviceMemory::AllocationOf(CUdeviceptr pointer) const {
  if (!Owns(pointer)) return std::nullopt;
  const std::lock_guard<std::mutex> lock(mutex_);
  auto block = used_.upper_bound(pointer - base_);
  if (block == used_.begin()) return std::nullopt;
  --block;
  if (pointer - base_ >= block->first + block->second.reserved) return std::nullopt;
  return Range{base_ + block->first, block->second.requested};
}

void* DeviceMemory::View(CUdeviceptr pointer, size_t bytes) const {
  const std::optional<Range> range = AllocationOf(pointer);
  if (!range || pointer - range->begin > range->bytes || bytes > range->bytes - (pointer - range->begin))
    return nullptr;
  return view_ + (pointer - base_);
}

size_t DeviceMemory::used() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return used_bytes_;
}

PinnedMemory& PinnedMemory::Get() {
  static auto* memory = new PinnedMemory;
  return *memory;
}

void* PinnedMemory::Allocate(size_t bytes) {
  void* pointer = std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
  if (pointer == nullptr) return nullptr;
  const std::lock_guard<std::mutex> lock(mutex_);
  blocks_[static_cast<const char*>(pointer)] = {bytes, true};
  return pointer;
}

bool PinnedMemory::Free(void* pointer) {
  if (!Remove(pointer, true)) return false;
  std::free(pointer);
  return true;
}

void PinnedMemory::Register(void* pointer, size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  blocks_[static_cast<const char*>(pointer)] = {bytes, false};
}

bool PinnedMemory::Unregister(void* pointer) { return Remove(pointer, false); }

bool PinnedMemory::Contains(const void* pointer) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto block = blocks_.upper_bound(static_cast<const char*>(pointer));
  if (block == blocks_.begin()) return false;
  --block;
  return static_cast<const char*>(pointer) < block->first + block->second.bytes;
}

bool PinnedMemory::Remove(void* pointer, bool ours) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto block = blocks_.find(static_cast<const char*>(pointer));
  if (block == blocks_.end() || block->second.ours != ours) return false;
  blocks_.erase(block);
  return true;
}

}  // namespace cuda_standin
