#pragma once

#include <sstream>
#include <string>

namespace tf_collectives {

/// Joins the arguments, as operator<< prints them.
template <typename... Arguments>
std::string Concat(const Arguments&... arguments) {
  std::ostringstream stream;
  (stream << ... << arguments);
  return stream.str();
}

/// "rank 2" or "ranks 0, 2, 3".
template <typename Container>
std::string RankList(const Container& ranks) {
  std::ostringstream stream;
  stream << (ranks.size() == 1 ? "rank " : "ranks ");
  const char* separator = "";
  for (int rank : ranks) {
    stream << separator << rank;
    separator = ", ";
  }
  return stream.str();
}

}  // namespace tf_collectives
