#pragma once

#include <nccl.h>

#include <string>

#include "nccl/communicator.h"

namespace cuda_standin {

/// The path of a file that doesn't exist yet.
std::string NewMeetingPath();

ncclResult_t ReadConfig(const ncclConfig_t* config, const Config& otherwise, Config* result);

/// Finds a rank's place in what ncclCommSplit makes of its communicator, and joins the others there. `child` is null
/// where this rank is in no part.
void Split(Communicator& parent, int color, int key, const Signature& signature, Communicator* child);

}  // namespace cuda_standin
