#pragma once

#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

// The little that the C++ tests need: TEST(Name) { CHECK(condition); CHECK_EQ(actual, expected); }. A program runs all
// its tests and fails if one check did.

namespace tf_collectives::testing {

struct Registration {
  Registration(const char* name, void (*body)());
};

void Fail(const char* file, int line, const std::string& text);
/// How many checks have failed so far.
int Failures();
/// Runs `body(rank)` in `size` threads at once.
void RunRanks(int size, const std::function<void(int)>& body);

template <typename Value>
std::string Show(const Value& value) {
  if constexpr (std::is_enum_v<Value>) {
    return std::to_string(static_cast<long long>(value));
  } else {
    std::ostringstream stream;
    stream << value;
    return stream.str();
  }
}
template <typename Value>
std::string Show(const std::vector<Value>& values) {
  std::string text = "[";
  for (const Value& value : values) text += (text.size() > 1 ? ", " : "") + Show(value);
  return text + "]";
}

template <typename Actual, typename Expected>
void CheckEqual(const char* file, int line, const char* text, const Actual& actual, const Expected& expected) {
  if (!(actual == expected))
    Fail(file, line, std::string(text) + " is " + Show(actual) + ", expected " + Show(expected));
}

inline void CheckContains(const char* file, int line, const std::string& text, const std::string& part) {
  if (text.find(part) == std::string::npos) Fail(file, line, "'" + part + "' is not in:\n" + text);
}

}  // namespace tf_collectives::testing

#define TEST(name)                                                                     \
  static void name();                                                                  \
  static const ::tf_collectives::testing::Registration registered_##name(#name, name); \
  static void name()
#define CHECK(condition) \
  if (!(condition)) ::tf_collectives::testing::Fail(__FILE__, __LINE__, #condition " does not hold")
#define CHECK_EQ(actual, expected) ::tf_collectives::testing::CheckEqual(__FILE__, __LINE__, #actual, actual, expected)
#define CHECK_CONTAINS(text, part) ::tf_collectives::testing::CheckContains(__FILE__, __LINE__, text, part)
#define CHECK_OK(status) \
  ::tf_collectives::testing::CheckEqual(__FILE__, __LINE__, #status, (status).message(), std::string())
