#pragma once

#include <string>

namespace tf_collectives {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

/// Prints one line to standard error, with the rank. The level and rank are set when the runtime is initialized.
void Log(LogLevel level, const std::string& text);
void ConfigureLog(const std::string& least_level, int rank);

}  // namespace tf_collectives
