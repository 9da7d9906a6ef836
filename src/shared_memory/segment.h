#pragma once

#include <cstddef>

#include "tf_collectives/status.h"

namespace tf_collectives {

/// An owned file descriptor.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int descriptor) : descriptor_(descriptor) {}
  FileDescriptor(FileDescriptor&& other) noexcept : descriptor_(other.Release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor() { Close(); }

  int get() const { return descriptor_; }
  bool valid() const { return descriptor_ >= 0; }
  int Release();
  void Close();

 private:
  int descriptor_ = -1;
};

/// Memory that the ranks of one machine share. It has no name anywhere: the descriptor is passed from process to
/// process, and the kernel frees the memory with its last user, however that one ends.
class Segment {
 public:
  Segment() = default;
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  ~Segment();

  /// Makes a zeroed segment with its pages reserved, so that a full machine is an error here and no signal later.
  static Status Create(size_t bytes, Segment* segment, FileDescriptor* descriptor);
  static Status Map(const FileDescriptor& descriptor, size_t bytes, Segment* segment);

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace tf_collectives
