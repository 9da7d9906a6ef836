#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "tf_collectives/request.h"
#include "tf_collectives/status.h"

namespace tf_collectives {

/// Bytes of a request, equal exactly for equal requests.
std::string EncodeRequest(const Request& request);
bool DecodeRequest(const std::string& bytes, Request* request);

// From a rank to the coordinator.

/// "This rank has submitted ...": by the number of an agreed request where there is one, else in full.
struct Announcement {
  uint32_t epoch = 0;
  uint32_t cache_id = 0;
  std::string request;
};
/// "Something failed here": begins the failure epoch `epoch`, unless that has begun already.
struct FailureReport {
  uint32_t epoch = 0;
  Status status;
};
/// "This rank takes no part any more."
struct Farewell {};

struct RankMessage {
  /// Decisions of the coordinator that the sender had carried out, which tells which cache ids it may still use.
  uint64_t decisions_seen = 0;
  std::variant<Announcement, FailureReport, Farewell> content;
};

// From the coordinator to every rank, in one order that is the same for all.

/// A request that all ranks have submitted.
struct ScheduledRequest {
  uint32_t cache_id = 0;
  /// Whether every rank announced it by `cache_id`; then the rest isn't sent.
  bool known = false;
  std::string name;
  GatherSizes sizes;
};
/// "Run these now."
struct Execution {
  int64_t fusion_threshold = 0;
  std::vector<uint32_t> evicted;
  std::vector<ScheduledRequest> requests;
};
/// "The failure epoch `epoch` begins": all that is in flight ends with `status`.
struct Failure {
  uint32_t epoch = 0;
  Status status;
};
/// "This rank has said farewell."
struct Departure {
  int32_t rank = 0;
};

using Decision = std::variant<Execution, Failure, Departure>;

std::string Encode(const RankMessage& message);
bool DecodeMessage(const std::string& bytes, RankMessage* message);
std::string Encode(const Decision& decision);
bool DecodeDecision(const std::string& bytes, Decision* decision);

}  // namespace tf_collectives
