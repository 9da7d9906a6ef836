#pragma once

#include <nccl.h>

#include <string>

namespace cuda_standin {

/// Keeps the text for ncclGetLastError, prints it and returns the code.
ncclResult_t Fail(ncclResult_t result, const std::string& text);
/// Stays valid until this thread asks again.
const char* LastErrorText();

}  // namespace cuda_standin
