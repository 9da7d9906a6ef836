// Host versions of two kernels, loaded by the stand-in as those of tf_collectives are.

#include <cstring>

#include "kernel_hook.h"

namespace {

cuda_standin_view view = nullptr;

template <typename Value>
Value Parameter(const cuda_standin_launch* launch, int index) {
  Value value;
  std::memcpy(&value, launch->parameters[index], sizeof value);
  return value;
}

// scale(float* values, float factor, int count)
void Scale(const cuda_standin_launch* launch) {
  const int count = Parameter<int>(launch, 2);
  const auto bytes = static_cast<size_t>(count) * sizeof(float);
  auto* values = static_cast<float*>(view(launch, Parameter<float*>(launch, 0), bytes));
  if (values == nullptr) return;
  for (int index = 0; index < count; ++index) values[index] *= Parameter<float>(launch, 1);
}

// launch_size(unsigned* result): blocks times threads
void LaunchSize(const cuda_standin_launch* launch) {
  auto* result = static_cast<unsigned*>(view(launch, Parameter<unsigned*>(launch, 0), sizeof(unsigned)));
  if (result != nullptr) *result = launch->grid[0] * launch->block[0];
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const cuda_standin_kernel* cuda_standin_kernels(
    cuda_standin_view keep, size_t* count) {
  static const size_t scale_bytes[] = {sizeof(float*), sizeof(float), sizeof(int)};
  static const size_t launch_size_bytes[] = {sizeof(unsigned*)};
  static const cuda_standin_kernel kernels[] = {{"scale", Scale, scale_bytes, 3},
                                                {"launch_size", LaunchSize, launch_size_bytes, 1}};
  view = keep;
  *count = 2;
  return kernels;
}
