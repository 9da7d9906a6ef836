#define TFC_REDUCTION_NAMESPACE avx2
#include "communicators/reduction_kernels.h"
