#pragma once

#include "nccl/communicator.h"

namespace cuda_standin {

/// Runs one collective in the thread of its stream, once it is its turn.
MeetingPlace::Reason RunCollective(Communicator& communicator, const Operation& operation, const Signature& signature);

/// How many bytes a rank sends and receives.
size_t SendBytes(const Communicator& communicator, const Operation& operation);
size_t ReceiveBytes(const Communicator& communicator, const Operation& operation);

}  // namespace cuda_standin
