// libcudnn.so.9: its version alone, which TensorFlow checks.

#include <cstddef>

#pragma GCC visibility push(default)

extern "C" {

int cudnnGetProperty(int property, int* value) {
  constexpr int kVersion[] = {9, 3, 0};
  constexpr int kBadParameter = 2000;
  if (property < 0 || property > 2) return kBadParameter;
  *value = kVersion[property];
  return 0;
}

size_t cudnnGetVersion() { return 90300; }

size_t cudnnGetCudartVersion() { return 12050; }

}  // extern "C"
