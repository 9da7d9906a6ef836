#include <string>

#include "cuda/driver.h"
#include "cuda/nccl.h"
#include "cuda/shared_library.h"
#include "testing.h"

namespace tf_collectives::cuda {
namespace {

TEST(OpensALibraryAndFindsItsFunctions) {
  SharedLibrary library;
  CHECK(library.Open("libm.so.6", SharedLibrary::Lookup::kAnywhere));
  double (*cosine)(double) = nullptr;
  double (*unknown)(double) = nullptr;
  SymbolResolver resolver(library);
  resolver.Require("cos", &cosine);
  resolver.Optional("tfc_not_there", &unknown);
  CHECK(resolver.missing().empty());
  CHECK_EQ(cosine(0.0), 1.0);
  CHECK(unknown == nullptr);
  resolver.Require("tfc_not_there", &unknown);
  resolver.Require("tfc_nor_this", &unknown);
  CHECK_EQ(resolver.MissingList(), "tfc_not_there, tfc_nor_this");
  CHECK_CONTAINS(SharedLibrary::PathOf(reinterpret_cast<const void*>(cosine)), "libm");
}

TEST(SaysWhyALibraryCantBeOpened) {
  SharedLibrary library;
  CHECK(!library.Open("libtfc_not_there.so.1", SharedLibrary::Lookup::kLoadedAlready));
  CHECK(!library.Open("libtfc_not_there.so.1", SharedLibrary::Lookup::kAnywhere));
  CHECK_CONTAINS(library.error(), "libtfc_not_there.so.1");
  CHECK(!library.is_open());
}

// Machines with a GPU, with NCCL alone and with neither run these two.
TEST(LoadsTheDriverOrSaysWhatToInstall) {
  Status status;
  const CudaDriver* driver = LoadCudaDriver(&status);
  CHECK_EQ(driver != nullptr, status.ok());
  if (driver == nullptr) CHECK_CONTAINS(status.message(), "driver");
  Status again;
  CHECK(LoadCudaDriver(&again) == driver);
  CHECK_EQ(again.message(), status.message());
}

TEST(LoadsNcclOrSaysWhatToInstall) {
  Status status;
  const Nccl* nccl = LoadNccl("/no/such/libnccl.so.2", &status);
  CHECK_EQ(nccl != nullptr, status.ok());
  if (nccl != nullptr) {
    CHECK(nccl->version >= 21900);
    CHECK_CONTAINS(nccl->path, "libnccl.so.2");
  } else {
    CHECK_CONTAINS(status.message(), "pip install 'nvidia-nccl-cu12");
  }
}

TEST(ErrorsOfNcclCarryItsLastErrorAndAdvice) {
  Nccl nccl;
  nccl.ncclGetErrorString = [](ncclResult_t) { return "remote process exited or there was a network error"; };
  nccl.ncclGetLastError = [](ncclComm_t) { return "socketProgress: Connection closed by remote peer"; };
  nccl.version = 22707;
  nccl.path = "/lib/libnccl.so.2";
  CHECK_OK(nccl.Check(ncclSuccess, "ncclAllReduce", nullptr));
  CHECK_OK(nccl.Check(ncclInProgress, "ncclCommInitRankConfig", nullptr));
  const Status status = nccl.Check(ncclRemoteError, "ncclAllReduce", nullptr);
  CHECK(status.code() == StatusCode::kUnavailable);
  CHECK_EQ(status.message(),
           "ncclAllReduce failed: remote process exited or there was a network error. NCCL's last error: "
           "socketProgress: Connection closed by remote peer. Another rank has ended or lost its connection: look for "
           "the first error in the other ranks' output. (NCCL 2.27.7, /lib/libnccl.so.2)");
  nccl.ncclGetLastError = [](ncclComm_t) { return ""; };
  CHECK(nccl.Check(ncclInternalError, "ncclAllReduce", nullptr).code() == StatusCode::kInternal);
  CHECK(nccl.Check(ncclInternalError, "ncclAllReduce", nullptr).message().find("last error") == std::string::npos);
}

}  // namespace
}  // namespace tf_collectives::cuda
