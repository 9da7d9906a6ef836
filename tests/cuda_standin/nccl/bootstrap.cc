#include "nccl/bootstrap.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "common/settings.h"
#include "nccl/last_error.h"

namespace cuda_standin {

std::string NewMeetingPath() {
  std::random_device random;
  char name[64];
  std::snprintf(name, sizeof name, "/cuda_standin_nccl_%08x%08x%08x", random(), random(), random());
  return GetSettings().nccl_directory + name;
}

// A program built for an older NCCL gives a shorter structure.
ncclResult_t ReadConfig(const ncclConfig_t* config, const Config& otherwise, Config* result) {
  constexpr unsigned kMagic = 0xcafebeef;
  *result = otherwise;
  if (config == nullptr) return ncclSuccess;
  if (config->magic != kMagic || config->size < offsetof(ncclConfig_t, cgaClusterSize))
    return Fail(ncclInvalidArgument, "the ncclConfig_t wasn't set to NCCL_CONFIG_INITIALIZER");
  ncclConfig_t known = NCCL_CONFIG_INITIALIZER;
  const size_t version = known.size;
  std::memcpy(&known, config, std::min(config->size, version));
  if (known.blocking != NCCL_CONFIG_UNDEF_INT) result->blocking = known.blocking != 0;
  if (known.commName != nullptr) result->name = known.commName;
  return ncclSuccess;
}

void Split(Communicator& parent, int color, int key, const Signature& launched, Communicator* child) {
  Signature signature = launched;
  signature.color = color;
  signature.key = key;
  std::vector<std::pair<int, int>> members;
  bool agreed = false;
  parent.RunInTurn(signature, [&] {
    MeetingPlace::Reason reason = parent.Agree(signature, [&] {
      for (int rank = 0; rank < parent.size; ++rank) {
        const Signature& theirs = parent.place().signature(rank);
        if (theirs.color == color) members.emplace_back(theirs.key, rank);
      }
    });
    agreed = reason.empty();
    return reason;
  });
  if (child == nullptr) return;
  if (!agreed) return child->Break(ncclRemoteError, "the communicator that should be split is broken");
  std::sort(members.begin(), members.end());
  const auto mine = std::find(members.begin(), members.end(), std::pair(key, parent.rank));
  child->rank = static_cast<int>(mine - members.begin());
  child->size = static_cast<int>(members.size());
  child->Join(parent.path() + "_" + std::to_string(signature.sequence) + "_" + std::to_string(color));
}

}  // namespace cuda_standin
