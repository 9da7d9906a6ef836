#pragma once

#include <vector>

#include "nccl/communicator.h"

namespace cuda_standin {

/// Runs the sends and receives of one group together, since each may need another one to get on.
MeetingPlace::Reason RunPointToPoint(Communicator& communicator, const std::vector<Operation>& operations);

}  // namespace cuda_standin
