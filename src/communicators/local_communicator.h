#pragma once

#include "communicators/communicator.h"

namespace tf_collectives {

/// The only rank of a job: every collective is a copy, scaled where the request says so.
class LocalCommunicator : public Communicator {
 public:
  Status Run(const Batch& batch) override;
};

}  // namespace tf_collectives
