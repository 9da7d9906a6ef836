#pragma once

#include <cuda.h>

#include <string>

namespace cuda_standin {

/// What can be read in the image of a module without running it: is it code for this device, and is a kernel in it?
/// Images that are neither a cubin nor PTX, such as those of other libraries, are taken to contain everything.
class ModuleImage {
 public:
  explicit ModuleImage(const void* image);

  CUresult LoadError() const;
  bool HasKernel(const std::string& name) const;

 private:
  enum class Kind { kCubin, kPtx, kOther };

  Kind kind_ = Kind::kOther;
  int compute_capability_ = 0;
  std::string text_;
};

}  // namespace cuda_standin
