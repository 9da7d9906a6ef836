// Our declarations of the CUDA driver and of NCCL against the real headers, which TensorFlow's wheel for GPUs contains.
// All of it happens when this is compiled.

#include "cuda/driver.h"
#include "cuda/nccl.h"

// The real ones come second, because they define macros with names of ours.
#include <cuda.h>
#include <nccl.h>

#include <cstddef>
#include <type_traits>

#include "testing.h"

namespace ours = tf_collectives::cuda;

namespace {

/// Whether a value of one type can be passed where the other is expected.
template <typename A, typename B>
constexpr bool Agree() {
  if constexpr (std::is_same_v<A, B>) {
    return true;
  } else if constexpr (std::is_pointer_v<A> && std::is_pointer_v<B>) {
    using PointeeA = std::remove_pointer_t<A>;
    using PointeeB = std::remove_pointer_t<B>;
    return std::is_const_v<PointeeA> == std::is_const_v<PointeeB> &&
           Agree<std::remove_cv_t<PointeeA>, std::remove_cv_t<PointeeB>>();
  } else if constexpr (std::is_enum_v<A> && std::is_enum_v<B>) {
    return std::is_same_v<std::underlying_type_t<A>, std::underlying_type_t<B>>;
  } else if constexpr (std::is_class_v<A> && std::is_class_v<B>) {
    return sizeof(A) <= sizeof(B) && alignof(A) == alignof(B) && std::is_standard_layout_v<A> &&
           std::is_standard_layout_v<B>;
  } else {
    return false;
  }
}

template <typename Ours, typename Real>
struct FunctionsAgree : std::false_type {};
template <typename OurResult, typename... OurArguments, typename RealResult, typename... RealArguments>
struct FunctionsAgree<OurResult (*)(OurArguments...), RealResult (*)(RealArguments...)> {
  static constexpr bool kArguments = [] {
    if constexpr (sizeof...(OurArguments) == sizeof...(RealArguments)) {
      return (Agree<OurArguments, RealArguments>() && ...);
    } else {
      return false;
    }
  }();
  static constexpr bool value = kArguments && Agree<OurResult, RealResult>();
};

static_assert(FunctionsAgree<int (*)(const char*), int (*)(const char*)>::value);
static_assert(!FunctionsAgree<int (*)(const char*), int (*)(char*)>::value);
static_assert(!FunctionsAgree<int (*)(size_t), int (*)(unsigned)>::value);
static_assert(!FunctionsAgree<int (*)(int*), int (*)(int**)>::value);
static_assert(!FunctionsAgree<int (*)(int), int (*)(int, int)>::value);

#define CHECK_DRIVER_FUNCTION(symbol, ...) \
  static_assert(FunctionsAgree<decltype(ours::CudaDriver::symbol), decltype(&::symbol)>::value, #symbol);
TFC_CUDA_DRIVER_FUNCTIONS(CHECK_DRIVER_FUNCTION)

#define CHECK_NCCL_FUNCTION(symbol, ...) \
  static_assert(FunctionsAgree<decltype(ours::Nccl::symbol), decltype(&::symbol)>::value, #symbol);
TFC_NCCL_FUNCTIONS(CHECK_NCCL_FUNCTION)
CHECK_NCCL_FUNCTION(ncclGetErrorString)
CHECK_NCCL_FUNCTION(ncclGetLastError)
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
TFC_NCCL_OPTIONAL_FUNCTIONS(CHECK_NCCL_FUNCTION)
#endif

#define CHECK_CONSTANT(name) static_assert(int{ours::name} == int{::name}, #name);
CHECK_CONSTANT(CUDA_SUCCESS)
CHECK_CONSTANT(CUDA_ERROR_OUT_OF_MEMORY)
CHECK_CONSTANT(CUDA_ERROR_DEINITIALIZED)
CHECK_CONSTANT(CUDA_ERROR_NO_DEVICE)
CHECK_CONSTANT(CUDA_ERROR_INVALID_IMAGE)
CHECK_CONSTANT(CUDA_ERROR_NO_BINARY_FOR_GPU)
CHECK_CONSTANT(CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
CHECK_CONSTANT(CUDA_ERROR_NOT_READY)
CHECK_CONSTANT(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
CHECK_CONSTANT(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
CHECK_CONSTANT(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
CHECK_CONSTANT(CU_STREAM_NON_BLOCKING)
CHECK_CONSTANT(CU_EVENT_DEFAULT)
CHECK_CONSTANT(CU_EVENT_DISABLE_TIMING)
CHECK_CONSTANT(ncclSuccess)
CHECK_CONSTANT(ncclUnhandledCudaError)
CHECK_CONSTANT(ncclSystemError)
CHECK_CONSTANT(ncclInternalError)
CHECK_CONSTANT(ncclInvalidArgument)
CHECK_CONSTANT(ncclInvalidUsage)
CHECK_CONSTANT(ncclRemoteError)
CHECK_CONSTANT(ncclInProgress)
CHECK_CONSTANT(ncclInt8)
CHECK_CONSTANT(ncclUint8)
CHECK_CONSTANT(ncclInt32)
CHECK_CONSTANT(ncclUint32)
CHECK_CONSTANT(ncclInt64)
CHECK_CONSTANT(ncclUint64)
CHECK_CONSTANT(ncclFloat16)
CHECK_CONSTANT(ncclFloat32)
CHECK_CONSTANT(ncclFloat64)
CHECK_CONSTANT(ncclBfloat16)
CHECK_CONSTANT(ncclSum)
CHECK_CONSTANT(ncclProd)
CHECK_CONSTANT(ncclMax)
CHECK_CONSTANT(ncclMin)
CHECK_CONSTANT(ncclAvg)
CHECK_CONSTANT(ncclScalarDevice)
CHECK_CONSTANT(ncclScalarHostImmediate)

static_assert(sizeof(ours::CUuuid) == sizeof(::CUuuid));
static_assert(sizeof(ours::CUdeviceptr) == sizeof(::CUdeviceptr));
static_assert(sizeof(ours::ncclUniqueId) == NCCL_UNIQUE_ID_BYTES);

// A later NCCL adds fields at the end; those of an earlier one are the first of ours.
#define CHECK_FIELD(name)                                                                     \
  static_assert(offsetof(ours::ncclConfig_t, name) == offsetof(::ncclConfig_t, name), #name); \
  static_assert(std::is_same_v<decltype(ours::ncclConfig_t::name), decltype(::ncclConfig_t::name)>, #name);
CHECK_FIELD(size)
CHECK_FIELD(magic)
CHECK_FIELD(version)
CHECK_FIELD(blocking)
CHECK_FIELD(cgaClusterSize)
CHECK_FIELD(minCTAs)
CHECK_FIELD(maxCTAs)
CHECK_FIELD(netName)
CHECK_FIELD(splitShare)
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
CHECK_FIELD(trafficClass)
CHECK_FIELD(commName)
CHECK_FIELD(collnetEnable)
CHECK_FIELD(CTAPolicy)
CHECK_FIELD(shrinkShare)
CHECK_FIELD(nvlsCTAs)
#endif

TEST(ConfigStartsAsNcclsInitializerDoes) {
  const ours::ncclConfig_t actual;
  const ::ncclConfig_t expected = NCCL_CONFIG_INITIALIZER;
  CHECK_EQ(actual.magic, expected.magic);
  CHECK_EQ(actual.blocking, expected.blocking);
  CHECK_EQ(actual.maxCTAs, expected.maxCTAs);
  CHECK(actual.netName == expected.netName);
  CHECK_EQ(actual.splitShare, expected.splitShare);
}

}  // namespace
