#pragma once

#include <string>
#include <vector>

#include "tf_collectives/status.h"

namespace tf_collectives::cuda {

/// A library opened by name at run time. It stays open until the process ends: threads of the library itself may
/// still run when static objects are destroyed.
class SharedLibrary {
 public:
  enum class Lookup { kLoadedAlready, kAnywhere };

  /// `name` is a file name, searched for as the dynamic linker does, or a path.
  bool Open(const std::string& name, Lookup lookup);
  /// Null if the library has no such symbol.
  void* Find(const char* symbol) const;

  bool is_open() const { return handle_ != nullptr; }
  /// The dynamic linker's reason why Open failed.
  const std::string& error() const { return error_; }
  /// The file that was really opened, as far as `symbol` tells.
  static std::string PathOf(const void* symbol);

 private:
  void* handle_ = nullptr;
  std::string error_;
};

/// Fills a table of function pointers. The names of required functions that the library lacks are collected.
class SymbolResolver {
 public:
  explicit SymbolResolver(const SharedLibrary& library) : library_(library) {}

  template <typename Function>
  void Require(const char* symbol, Function** function) {
    Optional(symbol, function);
    if (*function == nullptr) missing_.emplace_back(symbol);
  }
  template <typename Function>
  void Optional(const char* symbol, Function** function) {
    *function = reinterpret_cast<Function*>(library_.Find(symbol));
  }

  const std::vector<std::string>& missing() const { return missing_; }
  /// The missing names, separated by commas.
  std::string MissingList() const;

 private:
  const SharedLibrary& library_;
  std::vector<std::string> missing_;
};

}  // namespace tf_collectives::cuda
