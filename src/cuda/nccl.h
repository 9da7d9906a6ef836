#pragma once

#include <climits>
#include <cstddef>
#include <string>

#include "cuda/driver.h"
#include "tf_collectives/status.h"

// Our own declarations of NCCL's API, as in cuda/driver.h. Those of NCCL 2.19 are required, newer ones optional.

using ncclComm_t = struct ncclComm*;

namespace tf_collectives::cuda {

struct ncclUniqueId {
  char internal[128];
};

enum ncclResult_t : unsigned {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
};

enum ncclDataType_t : unsigned {
  ncclInt8 = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9,
};

/// Operations made by ncclRedOpCreatePreMulSum have values beyond the named ones.
enum ncclRedOp_t : unsigned {
  ncclSum = 0,
  ncclProd = 1,
  ncclMax = 2,
  ncclMin = 3,
  ncclAvg = 4,
};

enum ncclScalarResidence_t : unsigned {
  ncclScalarDevice = 0,
  ncclScalarHostImmediate = 1,
};

constexpr int NCCL_CONFIG_UNDEF_INT = INT_MIN;
constexpr int NCCL_SPLIT_NOCOLOR = -1;

/// The layout of NCCL 2.27. An older library reads only the fields that it knows, and a newer one takes its own
/// defaults for those that came later; both go by `size` and `version`.
struct ncclConfig_t {
  size_t size = sizeof(ncclConfig_t);
  unsigned magic = 0xcafebeef;
  unsigned version = 22700;
  int blocking = NCCL_CONFIG_UNDEF_INT;
  int cgaClusterSize = NCCL_CONFIG_UNDEF_INT;
  int minCTAs = NCCL_CONFIG_UNDEF_INT;
  int maxCTAs = NCCL_CONFIG_UNDEF_INT;
  const char* netName = nullptr;
  int splitShare = NCCL_CONFIG_UNDEF_INT;
  int trafficClass = NCCL_CONFIG_UNDEF_INT;
  const char* commName = nullptr;
  int collnetEnable = NCCL_CONFIG_UNDEF_INT;
  int CTAPolicy = NCCL_CONFIG_UNDEF_INT;
  int shrinkShare = NCCL_CONFIG_UNDEF_INT;
  int nvlsCTAs = NCCL_CONFIG_UNDEF_INT;
};

// clang-format off
/// As FUNCTION(symbol, arguments...). All of them return ncclResult_t.
#define TFC_NCCL_FUNCTIONS(FUNCTION)                                                                  \
  FUNCTION(ncclGetVersion, int* version)                                                              \
  FUNCTION(ncclGetUniqueId, ncclUniqueId* id)                                                         \
  FUNCTION(ncclCommInitRankConfig, ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,            \
           ncclConfig_t* config)                                                                      \
  FUNCTION(ncclCommSplit, ncclComm_t comm, int color, int key, ncclComm_t* split,                     \
           ncclConfig_t* config)                                                                      \
  FUNCTION(ncclCommFinalize, ncclComm_t comm)                                                         \
  FUNCTION(ncclCommDestroy, ncclComm_t comm)                                                          \
  FUNCTION(ncclCommAbort, ncclComm_t comm)                                                            \
  FUNCTION(ncclCommGetAsyncError, ncclComm_t comm, ncclResult_t* error)                               \
  FUNCTION(ncclCommCount, ncclComm_t comm, int* count)                                                \
  FUNCTION(ncclCommUserRank, ncclComm_t comm, int* rank)                                              \
  FUNCTION(ncclCommCuDevice, ncclComm_t comm, int* device)                                            \
  FUNCTION(ncclMemAlloc, void** pointer, size_t bytes)                                                \
  FUNCTION(ncclMemFree, void* pointer)                                                                \
  FUNCTION(ncclCommRegister, ncclComm_t comm, void* buffer, size_t bytes, void** handle)              \
  FUNCTION(ncclCommDeregister, ncclComm_t comm, void* handle)                                         \
  FUNCTION(ncclRedOpCreatePreMulSum, ncclRedOp_t* op, void* scalar, ncclDataType_t dtype,             \
           ncclScalarResidence_t residence, ncclComm_t comm)                                          \
  FUNCTION(ncclRedOpDestroy, ncclRedOp_t op, ncclComm_t comm)                                         \
  FUNCTION(ncclAllReduce, const void* send, void* receive, size_t count, ncclDataType_t dtype,        \
           ncclRedOp_t op, ncclComm_t comm, CUstream stream)                                          \
  FUNCTION(ncclReduce, const void* send, void* receive, size_t count, ncclDataType_t dtype,           \
           ncclRedOp_t op, int root, ncclComm_t comm, CUstream stream)                                \
  FUNCTION(ncclReduceScatter, const void* send, void* receive, size_t receive_count,                  \
           ncclDataType_t dtype, ncclRedOp_t op, ncclComm_t comm, CUstream stream)                    \
  FUNCTION(ncclAllGather, const void* send, void* receive, size_t send_count, ncclDataType_t dtype,   \
           ncclComm_t comm, CUstream stream)                                                          \
  FUNCTION(ncclBroadcast, const void* send, void* receive, size_t count, ncclDataType_t dtype,        \
           int root, ncclComm_t comm, CUstream stream)                                                \
  FUNCTION(ncclSend, const void* send, size_t count, ncclDataType_t dtype, int peer,                  \
           ncclComm_t comm, CUstream stream)                                                          \
  FUNCTION(ncclRecv, void* receive, size_t count, ncclDataType_t dtype, int peer,                     \
           ncclComm_t comm, CUstream stream)                                                          \
  FUNCTION(ncclGroupStart)                                                                            \
  FUNCTION(ncclGroupEnd)

/// Null where the library is older than the version that brought them.
#define TFC_NCCL_OPTIONAL_FUNCTIONS(FUNCTION)                                                         \
  /* 2.28 */                                                                                          \
  FUNCTION(ncclAlltoAll, const void* send, void* receive, size_t count, ncclDataType_t dtype,         \
           ncclComm_t comm, CUstream stream)
// clang-format on

/// NCCL's functions under their own names: `nccl->ncclGroupStart()`.
struct Nccl {
#define TFC_DECLARE_FUNCTION(symbol, ...) ncclResult_t (*symbol)(__VA_ARGS__) = nullptr;
  TFC_NCCL_FUNCTIONS(TFC_DECLARE_FUNCTION)
  TFC_NCCL_OPTIONAL_FUNCTIONS(TFC_DECLARE_FUNCTION)
#undef TFC_DECLARE_FUNCTION
  const char* (*ncclGetErrorString)(ncclResult_t) = nullptr;
  const char* (*ncclGetLastError)(ncclComm_t) = nullptr;

  /// As ncclGetVersion gives it: 22707 is 2.27.7.
  int version = 0;
  /// The file that the functions come from.
  std::string path;

  std::string VersionText() const;
  /// Ok for ncclSuccess and ncclInProgress, because a non-blocking communicator reports the outcome of the latter by
  /// ncclCommGetAsyncError. Else a status that names the call, NCCL's error, its last error text, and what to do.
  Status Check(ncclResult_t result, const char* call, ncclComm_t comm) const;
};

/// Finds NCCL once for the process: the libnccl.so.2 that is loaded already (TensorFlow's), else `package_library` (the
/// file of the package nvidia-nccl-cu12, or empty), else the system's. Null, and the reason in `status`, where that
/// fails; the next call tries again.
const Nccl* LoadNccl(const std::string& package_library, Status* status);

}  // namespace tf_collectives::cuda

/// Leaves the enclosing function with an error if the call of an NCCL function fails.
#define TFC_NCCL_RETURN_IF_ERROR(nccl, comm, function, ...) \
  TFC_RETURN_IF_ERROR((nccl)->Check((nccl)->function(__VA_ARGS__), #function, comm))
