#include "cuda/nccl.h"

#include <memory>
#include <mutex>

#include "cuda/shared_library.h"
#include "text.h"

namespace tf_collectives::cuda {
namespace {

constexpr char kLibrary[] = "libnccl.so.2";
constexpr int kOldestVersion = 21900;
constexpr char kInstall[] = "Install it: pip install 'nvidia-nccl-cu12>=2.19'.";

/// There must be one NCCL in a process, so what is loaded already comes first.
Status Open(const std::string& package_library, SharedLibrary* library) {
  using Lookup = SharedLibrary::Lookup;
  if (library->Open(kLibrary, Lookup::kLoadedAlready)) return Status::Ok();
  std::string reasons;
  if (!package_library.empty()) {
    if (library->Open(package_library, Lookup::kAnywhere)) return Status::Ok();
    reasons = library->error() + "; ";
  }
  if (library->Open(kLibrary, Lookup::kAnywhere)) return Status::Ok();
  return {StatusCode::kFailedPrecondition, Concat("Collectives on GPUs need NCCL, and no ", kLibrary,
                                                  " can be opened: ", reasons, library->error(), ". ", kInstall)};
}

std::string TextOfVersion(int version) { return Concat(version / 10000, ".", version / 100 % 100, ".", version % 100); }

Status Load(const std::string& package_library, Nccl* nccl) {
  SharedLibrary library;
  TFC_RETURN_IF_ERROR(Open(package_library, &library));
  SymbolResolver resolver(library);
#define TFC_RESOLVE_FUNCTION(symbol, ...) resolver.Require(#symbol, &nccl->symbol);
#define TFC_RESOLVE_OPTIONAL_FUNCTION(symbol, ...) resolver.Optional(#symbol, &nccl->symbol);
  TFC_NCCL_FUNCTIONS(TFC_RESOLVE_FUNCTION)
  TFC_NCCL_OPTIONAL_FUNCTIONS(TFC_RESOLVE_OPTIONAL_FUNCTION)
#undef TFC_RESOLVE_FUNCTION
#undef TFC_RESOLVE_OPTIONAL_FUNCTION
  resolver.Require("ncclGetErrorString", &nccl->ncclGetErrorString);
  resolver.Require("ncclGetLastError", &nccl->ncclGetLastError);

  if (nccl->ncclGetVersion != nullptr) {
    nccl->path = SharedLibrary::PathOf(reinterpret_cast<const void*>(nccl->ncclGetVersion));
    nccl->ncclGetVersion(&nccl->version);
    // Versions before 2.9 are numbered 2800 and the like, which is less as well.
    if (nccl->version < kOldestVersion) {
      return {StatusCode::kFailedPrecondition, Concat("NCCL in ", nccl->path, " has the version number ", nccl->version,
                                                      "; 2.19 (21900) is the oldest that works. ", kInstall)};
    }
  }
  if (!resolver.missing().empty()) {
    return {StatusCode::kFailedPrecondition, Concat("NCCL in ", nccl->path.empty() ? kLibrary : nccl->path, " lacks ",
                                                    resolver.MissingList(), ". ", kInstall)};
  }
  return Status::Ok();
}

StatusCode CodeOf(ncclResult_t result) {
  switch (result) {
    case ncclSystemError:
    case ncclRemoteError:
      return StatusCode::kUnavailable;
    case ncclInvalidUsage:
      return StatusCode::kFailedPrecondition;
    default:
      return StatusCode::kInternal;
  }
}

const char* Advice(ncclResult_t result) {
  switch (result) {
    case ncclRemoteError:
      return "Another rank has ended or lost its connection: look for the first error in the other ranks' output.";
    case ncclSystemError:
      return "Check the network between the machines and the size of /dev/shm, and run with NCCL_DEBUG=INFO to see "
             "which call of the system failed.";
    case ncclUnhandledCudaError:
      return "A CUDA call inside NCCL failed, often for want of GPU memory or because of an earlier failure on the "
             "same "
             "GPU. Run with NCCL_DEBUG=INFO to see which.";
    default:
      return "Run with NCCL_DEBUG=INFO to see what NCCL says about it.";
  }
}

}  // namespace

std::string Nccl::VersionText() const { return TextOfVersion(version); }

Status Nccl::Check(ncclResult_t result, const char* call, ncclComm_t comm) const {
  if (result == ncclSuccess || result == ncclInProgress) return Status::Ok();
  const char* last_error = ncclGetLastError(comm);
  std::string text = Concat(call, " failed: ", ncclGetErrorString(result), ".");
  if (last_error != nullptr && *last_error != '\0') text += Concat(" NCCL's last error: ", last_error, ".");
  return {CodeOf(result), Concat(text, " ", Advice(result), " (NCCL ", VersionText(), ", ", path, ")")};
}

const Nccl* LoadNccl(const std::string& package_library, Status* status) {
  static std::mutex mutex;
  static const Nccl* found = nullptr;
  const std::lock_guard<std::mutex> lock(mutex);
  *status = Status::Ok();
  if (found == nullptr) {
    auto nccl = std::make_unique<Nccl>();
    *status = Load(package_library, nccl.get());
    // Never deleted, because threads may use it while the process ends.
    if (status->ok()) found = nccl.release();
  }
  return found;
}

}  // namespace tf_collectives::cuda
