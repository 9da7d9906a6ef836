#pragma once

#include <stddef.h>

/* How the stand-in runs CUDA kernels of ours: a shared library, named by CUDA_STANDIN_KERNELS (several are separated by
 * colons), exports `cuda_standin_kernels` with a host version of each kernel. cuLaunchKernel of a kernel with that name
 * then runs it once per launch, in stream order. */

#ifdef __cplusplus
extern "C" {
#endif

struct cuda_standin_launch {
  /* Copies of the values that the launch's `kernelParams` pointed to, made when it was launched. */
  void* const* parameters;
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  const char* kernel;
  int device;
};

struct cuda_standin_kernel {
  const char* name;
  void (*run)(const struct cuda_standin_launch* launch);
  /* The size of each parameter, in order, as the driver knows them from the kernel's code. */
  const size_t* parameter_bytes;
  size_t parameter_count;
};

/* Where the host version of a kernel finds `bytes` of what a device pointer points to. Null, with a sticky error that
 * names the kernel, where they don't all lie in one live allocation: return then. */
typedef void* (*cuda_standin_view)(const struct cuda_standin_launch* launch, const void* pointer, size_t bytes);

/* Exported by the library: its kernels, and their number. It keeps `view`. */
typedef const struct cuda_standin_kernel* (*cuda_standin_kernels_function)(cuda_standin_view view, size_t* count);

#ifdef __cplusplus
}
#endif
