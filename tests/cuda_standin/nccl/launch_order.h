#pragma once

#include <cstdint>

#include "nccl/operation.h"

namespace cuda_standin {

/// Counts what was launched on each communicator of a device. Ranks that launch on two communicators in different
/// orders can block each other for ever on GPUs; the counts show it at once.
void NoteCommunicator(int device, uint64_t communicator);
void ForgetCommunicator(int device, uint64_t communicator);
/// Writes the counts of the device's other communicators into the signature, then counts this launch.
void NoteLaunch(int device, uint64_t communicator, Signature* signature);
/// Says how two ranks' orders differ, nothing where they don't.
std::string CompareLaunchOrder(const Signature& mine, const Signature& other, int other_rank);

}  // namespace cuda_standin
