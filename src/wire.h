#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

namespace tf_collectives {

/// Appends values to a message. Both ends are processes of one build on one kind of machine, so values go as they are.
class WireWriter {
 public:
  template <typename Value>
  void Put(const Value& value) {
    static_assert(std::is_trivially_copyable_v<Value>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void PutText(const std::string& text) {
    Put(static_cast<uint32_t>(text.size()));
    bytes_.append(text);
  }
  /// Text without its length: it must come last.
  void PutRest(const std::string& text) { bytes_.append(text); }

  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Reads them back in the same order. A message that ends too early yields zeros and ok() == false.
class WireReader {
 public:
  explicit WireReader(const std::string& bytes) : bytes_(bytes) {}

  template <typename Value>
  Value Get() {
    static_assert(std::is_trivially_copyable_v<Value>);
    Value value{};
    if (Has(sizeof(value))) {
      std::memcpy(&value, bytes_.data() + position_, sizeof(value));
      position_ += sizeof(value);
    }
    return value;
  }
  std::string GetText() {
    const auto length = Get<uint32_t>();
    if (!Has(length)) return {};
    position_ += length;
    return bytes_.substr(position_ - length, length);
  }
  std::string GetRest() {
    const size_t start = position_;
    position_ = bytes_.size();
    return bytes_.substr(start);
  }

  bool ok() const { return ok_; }

 private:
  bool Has(size_t count) {
    ok_ = ok_ && count <= bytes_.size() - position_;
    return ok_;
  }

  const std::string& bytes_;
  size_t position_ = 0;
  bool ok_ = true;
};

}  // namespace tf_collectives
