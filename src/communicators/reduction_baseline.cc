#define TFC_REDUCTION_NAMESPACE baseline
#include "communicators/reduction_kernels.h"
