#include "testing.h"

#include <atomic>
#include <cstdio>
#include <utility>

namespace tf_collectives::testing {
namespace {

std::vector<std::pair<const char*, void (*)()>>& Tests() {
  static auto* tests = new std::vector<std::pair<const char*, void (*)()>>;
  return *tests;
}

std::atomic<int> failures{0};

}  // namespace

Registration::Registration(const char* name, void (*body)()) { Tests().emplace_back(name, body); }

void Fail(const char* file, int line, const std::string& text) {
  ++failures;
  std::fprintf(stderr, "%s:%d: %s\n", file, line, text.c_str());
}

int Failures() { return failures; }

void RunRanks(int size, const std::function<void(int)>& body) {
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.emplace_back(body, rank);
  for (std::thread& rank : ranks) rank.join();
}

}  // namespace tf_collectives::testing

int main() {
  using namespace tf_collectives::testing;
  for (const auto& [name, body] : Tests()) {
    const int before = failures;
    body();
    std::printf("%s %s\n", failures == before ? "ok    " : "FAILED", name);
  }
  return failures == 0 && !Tests().empty() ? 0 : 1;
}
