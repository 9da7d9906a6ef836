#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "cuda/device.h"
#include "cuda/kernel_images.h"
#include "cuda/kernels/segments.h"
#include "tf_collectives/status.h"
#include "tf_collectives/types.h"

namespace tf_collectives::cuda {

/// A tensor and its place in a buffer where many lie side by side.
struct PackedTensor {
  /// In device memory. The kernel that packs only reads it.
  void* tensor = nullptr;
  size_t elements = 0;
  /// In bytes from the start of the buffer. Multiples of kPackAlignment are fastest, and any multiple of the element's
  /// size works.
  size_t offset = 0;
  double factor = 1.0;
};

/// A tensor to be multiplied. Source and destination may be the same memory.
struct ScaledTensor {
  const void* source = nullptr;
  void* destination = nullptr;
  size_t elements = 0;
  double factor = 1.0;
};

/// Where the next tensor in a buffer starts.
constexpr size_t kPackAlignment = 16;
constexpr size_t AlignForPacking(size_t offset) {
  return (offset + kPackAlignment - 1) / kPackAlignment * kPackAlignment;
}

/// The kernels that pack, unpack, scale and convert on one device. Each call is one launch in the stream's order,
/// whatever the number of tensors, and returns before it has run; the tensors' list may go then, but not their memory.
/// For one thread at a time.
class PackKernels {
 public:
  /// Loads the kernels that were compiled for this device, which outlives them.
  static Status Create(const Device* device, std::unique_ptr<PackKernels>* kernels) {
    return Create(device, KernelImages(), kernels);
  }
  static Status Create(const Device* device, const std::vector<KernelImage>& images,
                       std::unique_ptr<PackKernels>* kernels);
  ~PackKernels();

  /// Whether elements can be packed as others: any type as itself, and float32 as float16 or bfloat16 and back.
  static bool CanConvert(DataType from, DataType to);
  /// Whether elements of this type can be multiplied.
  static bool CanScale(DataType dtype);

  /// buffer[offset...] = convert(tensor * factor), for each tensor. What lies between the tensors isn't written.
  Status Pack(CUstream stream, DataType tensor_dtype, DataType buffer_dtype, const std::vector<PackedTensor>& tensors,
              void* buffer);
  /// tensor = convert(buffer[offset...] * factor), for each tensor.
  Status Unpack(CUstream stream, DataType tensor_dtype, DataType buffer_dtype, const std::vector<PackedTensor>& tensors,
                const void* buffer);
  /// destination = source * factor, for each tensor.
  Status Scale(CUstream stream, DataType dtype, const std::vector<ScaledTensor>& tensors);

 private:
  /// Tables that are too long for a launch's parameters go to the device through one of these, each used again when the
  /// launch that read it has run.
  struct Upload {
    size_t capacity = 0;
    PinnedMemory host;
    DeviceMemory device;
    Event used;
    bool pending = false;
  };

  explicit PackKernels(const Device* device) : device_(device) {}
  Status Initialise(const std::vector<KernelImage>& images);
  Status Launch(CUstream stream, DataType from, DataType to);
  Status FindKernel(DataType from, DataType to, bool scaled, CUfunction* kernel);
  Status UploadTable(CUstream stream, SegmentTable* table, Upload** upload);

  const Device* device_;
  CUmodule module_ = nullptr;
  std::vector<CUfunction> functions_;
  // Two batches are in flight at most, each with one launch before and one after the collective.
  std::array<Upload, 8> uploads_;
  size_t next_upload_ = 0;
  // Kept between calls for their memory.
  std::vector<Segment> segments_;
  std::vector<unsigned> first_tiles_;
};

}  // namespace tf_collectives::cuda
