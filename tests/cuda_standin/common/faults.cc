#include "common/faults.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
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

[[noreturn]] void Refuse(const std::string& text) {
  Die("CUDA_STANDIN_FAULTS: '" + text +
      "' is not FUNCTION[@RANK][#N]=ACTION, where ACTION is an error code, hang, async, lose or delay:MS");
}

/// What stands between `mark` and the end, which is cut off; `otherwise` where the mark is missing.
int CutNumber(std::string* text, char mark, int otherwise, const std::string& whole) {
  const size_t at = text->find(mark);
  if (at == std::string::npos) return otherwise;
  const std::string digits = text->substr(at + 1);
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string::npos) Refuse(whole);
  text->resize(at);
  return std::stoi(digits);
}

Order Parse(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos) Refuse(text);
  Order order;
  order.function = text.substr(0, equals);
  order.number = CutNumber(&order.function, '#', 1, text);
  order.rank = CutNumber(&order.function, '@', -1, text);

  std::string action = text.substr(equals + 1);
  const int delay = CutNumber(&action, ':', -1, text);
  if (delay >= 0 && action == "delay") {
    order.fault = {Fault::Action::kDelay, delay};
  } else if (delay >= 0) {
    Refuse(text);
  } else if (action == "hang") {
    order.fault.action = Fault::Action::kHang;
  } else if (action == "async") {
    order.fault.action = Fault::Action::kAsyncError;
  } else if (action == "lose") {
    order.lose = true;
  } else {
    action.insert(0, "=");
    order.fault = {Fault::Action::kFail, CutNumber(&action, '=', 0, text)};
  }
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
