#include "driver/images.h"

#include <elf.h>

#include <cstdlib>
#include <cstring>

#include "common/settings.h"

namespace cuda_standin {
namespace {

// Newer toolchains moved the number of the architecture one byte up.
int ArchitectureOf(const Elf64_Ehdr& header) {
  const unsigned flags = header.e_flags;
  return static_cast<int>(header.e_ident[EI_ABIVERSION] <= 7 ? flags & 0xff : flags >> 8 & 0xff);
}

}  // namespace

ModuleImage::ModuleImage(const void* image) {
  const char* bytes = static_cast<const char*>(image);
  if (std::memcmp(bytes, ELFMAG, SELFMAG) == 0) {
    Elf64_Ehdr header;
    std::memcpy(&header, bytes, sizeof header);
    kind_ = Kind::kCubin;
    compute_capability_ = ArchitectureOf(header);
    text_.assign(bytes, header.e_shoff + size_t{header.e_shnum} * header.e_shentsize);
    return;
  }
  // Only then it is text that ends with a zero.
  if (std::strncmp(bytes, "//", 2) != 0 && std::strncmp(bytes, ".version", 8) != 0) return;
  kind_ = Kind::kPtx;
  text_ = bytes;
  const std::string target = ".target sm_";
  const size_t at = text_.find(target);
  if (at != std::string::npos) compute_capability_ = std::atoi(text_.c_str() + at + target.size());
}

CUresult ModuleImage::LoadError() const {
  const int device = GetSettings().compute_capability;
  const bool runs = kind_ == Kind::kCubin
                        ? compute_capability_ / 10 == device / 10 && compute_capability_ % 10 <= device % 10
                        : compute_capability_ <= device;
  return kind_ == Kind::kOther || runs ? CUDA_SUCCESS : CUDA_ERROR_NO_BINARY_FOR_GPU;
}

bool ModuleImage::HasKernel(const std::string& name) const {
  if (kind_ == Kind::kCubin) return text_.find(".text." + name + '\0') != std::string::npos;
  if (kind_ == Kind::kPtx) return text_.find(".entry " + name + "(") != std::string::npos;
  return true;
}

}  // namespace cuda_standin
