#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include "common/export.h"
#include "common/settings.h"

namespace cuda_standin {

/// A line of the call log: {"process": 7, "rank": 0, "call": "cuMemAlloc", ...} with the given fields at its end.
STANDIN_EXPORT void LogCall(const std::string& call, const std::string& fields);
STANDIN_EXPORT std::string QuotedForLog(const std::string& text);

inline bool IsLogging() { return !GetSettings().log_path.empty(); }

template <typename Value>
std::string ValueForLog(const Value& value) {
  if constexpr (std::is_convertible_v<Value, std::string>) {
    return QuotedForLog(value);
  } else if constexpr (std::is_pointer_v<Value>) {
    return std::to_string(reinterpret_cast<uintptr_t>(value));
  } else if constexpr (std::is_enum_v<Value>) {
    return std::to_string(static_cast<long long>(value));
  } else {
    return std::to_string(value);
  }
}

inline std::string FieldsForLog() { return {}; }

/// Takes names and values in turn. Costs nothing where nobody asked for a log.
template <typename Value, typename... Rest>
std::string FieldsForLog(const char* name, const Value& value, const Rest&... rest) {
  if (!IsLogging()) return {};
  return std::string(", \"") + name + "\": " + ValueForLog(value) + FieldsForLog(rest...);
}

}  // namespace cuda_standin
