#pragma once

#include <memory>

#include "communicators/device_backend.h"

namespace tf_collectives {

/// Opens libtf_collectives_cuda.so, which lies beside this library, and makes its backend.
Status LoadDeviceBackend(const DeviceBackend::Options& options, std::unique_ptr<DeviceBackend>* backend);

}  // namespace tf_collectives
