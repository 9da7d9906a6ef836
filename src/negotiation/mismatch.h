#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tf_collectives/request.h"
#include "tf_collectives/status.h"

namespace tf_collectives {

/// "[784, 128] float32 sum", as error messages show a request.
std::string Describe(const Request& request);
/// "AllReduce 'grads/kernel'", or "AllReduce (unnamed)".
std::string Title(const Request& request);

/// Whether two ranks' requests of one name can run together.
bool Compatible(const Request& a, const Request& b);

/// The error for requests that can't run together; entries of ranks that haven't submitted yet are null.
Status MismatchError(const std::vector<std::shared_ptr<const Request>>& requests);

}  // namespace tf_collectives
