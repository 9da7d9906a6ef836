#include "common/faults.h"

#include <signal.h>
#include <unistd.h>

#include <mutex>
#include <regex>
#include <vector>

#include "common/settings.h"

namespace cuda_standin {
namespace {

struct Order {
  std::string function;
  int rank = -1;
  int number = 1;
  bool lose = false;
  Fault fault;
  int calls = 0;
};

Order Parse(const std::string& text) {
  static const std::regex grammar(R"(\s*(\w+)(?:@(\d+))?(?:#(\d+))?=(?:(\d+)|(hang|async|lose)|delay:(\d+))\s*)");
  std::smatch match;
  if (!std::regex_match(text, match, grammar))
    Die("CUDA_STANDIN_FAULTS: '" + text +
        "' is not FUNCTION[@RANK][#N]=ACTION, where ACTION is an error code, hang, async, lose or delay:MS");
  Order order;
  order.function = match[1];
  if (match[2].matched) order.rank = std::stoi(match[2]);
  if (match[3].matched) order.number = std::stoi(match[3]);
  if (match[4].matched) order.fault = {Fault::Action::kFail, std::stoi(match[4])};
  if (match[5] == "hang") order.fault.action = Fault::Action::kHang;
  if (match[5] == "async") order.fault.action = Fault::Action::kAsyncError;
  order.lose = match[5] == "lose";
  if (match[6].matched) order.fault = {Fault::Action::kDelay, std::stoi(match[6])};
  return order;
}

std::vector<Order>& Orders() {
  static auto* orders = [] {
    auto* list = new std::vector<Order>;
    const std::string& text = GetSettings().faults;
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find(',', begin), text.size());
      list->push_back(Parse(text.substr(begin, end - begin)));
      begin = end + 1;
    }
    return list;
  }();
  return *orders;
}

}  // namespace

Fault FaultOf(const std::string& function, int rank) {
  if (Orders().empty()) return {};
  static auto* mutex = new std::mutex;
  const std::lock_guard<std::mutex> lock(*mutex);
  Fault fault;
  for (Order& order : Orders()) {
    if (order.function != function || (order.rank >= 0 && order.rank != rank)) continue;
    if (++order.calls != order.number) continue;
    Complain("fault injected into call " + std::to_string(order.number) + " of " + function);
    if (order.lose) kill(getpid(), SIGKILL);
    fault = order.fault;
  }
  return fault;
}

std::string WithoutVersion(const char* function) {
  const std::string name = function;
  const size_t end = name.size();
  return end > 3 && name.compare(end - 3, 2, "_v") == 0 ? name.substr(0, end - 3) : name;
}

void HangForever() {
  for (;;) pause();
}

}  // namespace cuda_standin
