#pragma once

#include <cstdint>
#include <string>

#include "shared_memory/futex.h"

namespace tf_collectives {

/// Takes messages between the ranks and the coordinator, in order, and is what the runtime's thread sleeps on.
class Carrier {
 public:
  virtual ~Carrier() = default;

  /// Never blocks: what the way can't take now goes out with a later Send or Flush. From any thread.
  virtual void Send(int to, const std::string& message) = 0;

  // The rest is for the runtime's thread, except Wake.
  virtual bool Receive(int from, std::string* message) = 0;
  virtual void Flush() = 0;
  virtual bool HasUnsent() = 0;
  /// A number that changes with every event; read it before looking for work, and pass it to Wait.
  virtual uint32_t Events() = 0;
  virtual void Wait(uint32_t events, const Deadline& deadline) = 0;
  virtual void Wake() = 0;
};

}  // namespace tf_collectives
