#include "cuda/pack.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <utility>

#include "cuda/kernels/bodies.h"
#include "text.h"

namespace tf_collectives::cuda {
namespace {

template <typename T>
constexpr DataType kTypeOf = DataType::kBool;
template <>
constexpr DataType kTypeOf<Uint8> = DataType::kUint8;
template <>
constexpr DataType kTypeOf<Int8> = DataType::kInt8;
template <>
constexpr DataType kTypeOf<Int32> = DataType::kInt32;
template <>
constexpr DataType kTypeOf<Int64> = DataType::kInt64;
template <>
constexpr DataType kTypeOf<Float16> = DataType::kFloat16;
template <>
constexpr DataType kTypeOf<Bfloat16> = DataType::kBfloat16;
template <>
constexpr DataType kTypeOf<Float32> = DataType::kFloat32;
template <>
constexpr DataType kTypeOf<Float64> = DataType::kFloat64;

struct Kernel {
  const char* name;
  DataType from;
  DataType to;
};
template <typename Body>
constexpr Kernel MakeKernel(const char* name) {
  return {name, kTypeOf<typename Body::Source>, kTypeOf<typename Body::Destination>};
}

#define TFC_LIST_KERNEL(name, ...) MakeKernel<__VA_ARGS__>(#name),
constexpr Kernel kKernels[] = {TFC_SEGMENT_KERNELS(TFC_LIST_KERNEL)};
#undef TFC_LIST_KERNEL
// The first one of the list, whose elements are the bytes of any type.
constexpr size_t kCopyKernel = 0;
constexpr size_t kNoKernel = std::size(kKernels);

size_t IndexOfKernel(DataType from, DataType to) {
  for (size_t i = kCopyKernel + 1; i < std::size(kKernels); ++i) {
    if (kKernels[i].from == from && kKernels[i].to == to) return i;
  }
  return kNoKernel;
}

}  // namespace

std::vector<const KernelImage*> ImagesFor(const std::vector<KernelImage>& images, int compute_capability) {
  std::vector<const KernelImage*> usable;
  for (const KernelImage& image : images) {
    const bool same_major = image.architecture / 10 == compute_capability / 10;
    if (image.architecture <= compute_capability && (image.is_ptx || same_major)) usable.push_back(&image);
  }
  std::sort(usable.begin(), usable.end(), [](const KernelImage* a, const KernelImage* b) {
    return a->is_ptx != b->is_ptx ? b->is_ptx : a->architecture > b->architecture;
  });
  return usable;
}

Status PackKernels::Create(const Device* device, const std::vector<KernelImage>& images,
                           std::unique_ptr<PackKernels>* kernels) {
  std::unique_ptr<PackKernels> created(new PackKernels(device));
  TFC_RETURN_IF_ERROR(created->Initialise(images));
  *kernels = std::move(created);
  return Status::Ok();
}

Status PackKernels::Initialise(const std::vector<KernelImage>& images) {
  if (images.empty()) {
    return {StatusCode::kUnimplemented,
            "This build of tf_collectives contains no CUDA kernels, because no compiler for them was found. Install it "
            "and then tf_collectives again, from its source: pip install 'nvidia-cuda-nvrtc-cu12>=12.8'."};
  }
  const CudaDriver* driver = device_->driver();
  const std::vector<const KernelImage*> usable = ImagesFor(images, device_->compute_capability());
  if (usable.empty()) {
    return {StatusCode::kUnimplemented,
            Concat(device_->name(), " has the compute capability ", device_->compute_capability() / 10, ".",
                   device_->compute_capability() % 10, ", and this build of tf_collectives has no kernels for it; ",
                   "they need 7.0 or newer. Place the collectives on the CPU.")};
  }
  const ContextGuard guard(driver, device_->context());
  TFC_RETURN_IF_ERROR(guard.status());
  CUresult result = CUDA_SUCCESS;
  for (const KernelImage* image : usable) {
    // An old driver refuses what a newer compiler made, and may take the next.
    result = driver->cuModuleLoadData(&module_, image->data);
    if (result == CUDA_SUCCESS) break;
  }
  TFC_RETURN_IF_ERROR(driver->Check(result, "cuModuleLoadData of the kernels of tf_collectives"));
  for (const Kernel& kernel : kKernels) {
    CUfunction function = nullptr;
    TFC_RETURN_IF_ERROR(driver->Check(driver->cuModuleGetFunction(&function, module_, kernel.name), kernel.name));
    functions_.push_back(function);
  }
  return Status::Ok();
}

PackKernels::~PackKernels() {
  if (module_ == nullptr) return;
  const ContextGuard guard(device_->driver(), device_->context());
  device_->driver()->cuModuleUnload(module_);
}

bool PackKernels::CanConvert(DataType from, DataType to) { return from == to || IndexOfKernel(from, to) != kNoKernel; }

bool PackKernels::CanScale(DataType dtype) { return IndexOfKernel(dtype, dtype) != kNoKernel; }

Status PackKernels::Pack(CUstream stream, DataType tensor_dtype, DataType buffer_dtype,
                         const std::vector<PackedTensor>& tensors, void* buffer) {
  segments_.clear();
  for (const PackedTensor& tensor : tensors) {
    segments_.push_back({tensor.tensor, static_cast<char*>(buffer) + tensor.offset, tensor.elements, tensor.factor});
  }
  return Launch(stream, tensor_dtype, buffer_dtype);
}

Status PackKernels::Unpack(CUstream stream, DataType tensor_dtype, DataType buffer_dtype,
                           const std::vector<PackedTensor>& tensors, const void* buffer) {
  segments_.clear();
  for (const PackedTensor& tensor : tensors) {
    segments_.push_back(
        {static_cast<const char*>(buffer) + tensor.offset, tensor.tensor, tensor.elements, tensor.factor});
  }
  return Launch(stream, buffer_dtype, tensor_dtype);
}

Status PackKernels::Scale(CUstream stream, DataType dtype, const std::vector<ScaledTensor>& tensors) {
  segments_.clear();
  for (const ScaledTensor& tensor : tensors) {
    segments_.push_back({tensor.source, tensor.destination, tensor.elements, tensor.factor});
  }
  return Launch(stream, dtype, dtype);
}

Status PackKernels::FindKernel(DataType from, DataType to, bool scaled, CUfunction* kernel) {
  const size_t index = from == to && !scaled ? kCopyKernel : IndexOfKernel(from, to);
  if (index == kNoKernel) {
    return {StatusCode::kInvalidArgument,
            from == to ? Concat("Tensors of type ", NameOf(from), " can't be scaled on a GPU. Use the factor 1.")
                       : Concat("Tensors of type ", NameOf(from), " can't be converted to ", NameOf(to),
                                " on a GPU. Use float32 with float16 or bfloat16.")};
  }
  *kernel = functions_[index];
  return Status::Ok();
}

Status PackKernels::Launch(CUstream stream, DataType from, DataType to) {
  segments_.erase(std::remove_if(segments_.begin(), segments_.end(), [](const Segment& s) { return s.elements == 0; }),
                  segments_.end());
  if (segments_.empty()) return Status::Ok();
  const bool scaled = std::any_of(segments_.begin(), segments_.end(), [](const Segment& s) { return s.factor != 1.0; });
  CUfunction kernel = nullptr;
  TFC_RETURN_IF_ERROR(FindKernel(from, to, scaled, &kernel));

  const bool copies = from == to && !scaled;
  const auto tile_elements =
      copies ? kTileBytes : TileElements(static_cast<unsigned>(SizeOf(from)), static_cast<unsigned>(SizeOf(to)));
  first_tiles_.clear();
  unsigned long long tiles = 0;
  for (Segment& segment : segments_) {
    if (copies) segment.elements *= SizeOf(from);
    first_tiles_.push_back(static_cast<unsigned>(tiles));
    tiles += (segment.elements + tile_elements - 1) / tile_elements;
  }
  if (tiles > std::numeric_limits<unsigned>::max()) {
    return {StatusCode::kInvalidArgument, "More than 32 TiB in one collective. Reduce fewer tensors at once."};
  }

  SegmentTable table;
  table.segments = nullptr;
  table.first_tiles = nullptr;
  table.count = static_cast<unsigned>(segments_.size());
  table.tiles = static_cast<unsigned>(tiles);
  const CudaDriver* driver = device_->driver();
  const ContextGuard guard(driver, device_->context());
  TFC_RETURN_IF_ERROR(guard.status());
  Upload* upload = nullptr;
  if (segments_.size() <= kInlineSegments) {
    std::copy(segments_.begin(), segments_.end(), table.inline_segments);
    std::copy(first_tiles_.begin(), first_tiles_.end(), table.inline_first_tiles);
  } else {
    TFC_RETURN_IF_ERROR(UploadTable(stream, &table, &upload));
  }
  constexpr unsigned kTilesInBlock = kBlockThreads / kLanes;
  const auto blocks = static_cast<unsigned>((tiles + kTilesInBlock - 1) / kTilesInBlock);
  void* parameters[] = {&table};
  TFC_CUDA_RETURN_IF_ERROR(driver, cuLaunchKernel, kernel, blocks, 1, 1, kBlockThreads, 1, 1, 0, stream, parameters,
                           nullptr);
  if (upload == nullptr) return Status::Ok();
  upload->pending = true;
  return driver->Check(driver->cuEventRecord(upload->used.get(), stream), "cuEventRecord");
}

Status PackKernels::UploadTable(CUstream stream, SegmentTable* table, Upload** upload) {
  const CudaDriver* driver = device_->driver();
  Upload& next = uploads_[next_upload_++ % uploads_.size()];
  if (next.used == nullptr) TFC_RETURN_IF_ERROR(device_->CreateEvent(&next.used));
  if (next.pending) TFC_CUDA_RETURN_IF_ERROR(driver, cuEventSynchronize, next.used.get());
  next.pending = false;

  const size_t segment_bytes = segments_.size() * sizeof(Segment);
  const size_t bytes = segment_bytes + first_tiles_.size() * sizeof(unsigned);
  if (bytes > next.capacity) {
    // Freeing device memory waits for the whole device, so it should be rare.
    const size_t capacity = std::max<size_t>(2 * bytes, 65536);
    next.capacity = 0;
    TFC_RETURN_IF_ERROR(device_->AllocatePinned(capacity, "tables of tensors to pack", &next.host));
    TFC_RETURN_IF_ERROR(device_->Allocate(capacity, "tables of tensors to pack", &next.device));
    next.capacity = capacity;
  }
  std::memcpy(next.host.get(), segments_.data(), segment_bytes);
  std::memcpy(static_cast<char*>(next.host.get()) + segment_bytes, first_tiles_.data(), bytes - segment_bytes);
  TFC_CUDA_RETURN_IF_ERROR(driver, cuMemcpyHtoDAsync_v2, ToDevicePointer(next.device.get()), next.host.get(), bytes,
                           stream);
  table->segments = static_cast<const Segment*>(next.device.get());
  table->first_tiles = reinterpret_cast<const unsigned*>(static_cast<char*>(next.device.get()) + segment_bytes);
  *upload = &next;
  return Status::Ok();
}

}  // namespace tf_collectives::cuda
