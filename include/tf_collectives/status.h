#pragma once

#include <string>
#include <utility>

#include "tf_collectives/export.h"

namespace tf_collectives {

/// The numbers are those of absl::StatusCode, so that the TensorFlow ops convert by a cast.
enum class StatusCode : int {
  kOk = 0,
  kCancelled = 1,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
};

/// What a call of the core returns instead of throwing.
class [[nodiscard]] TFC_EXPORT Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  static Status Ok() { return {}; }

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

}  // namespace tf_collectives

/// Leaves the enclosing function with the status of `expression` if that is an error.
#define TFC_RETURN_IF_ERROR(expression)                  \
  do {                                                   \
    ::tf_collectives::Status tfc_status_ = (expression); \
    if (!tfc_status_.ok()) return tfc_status_;           \
  } while (false)
