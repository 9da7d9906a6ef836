#include "cuda/shared_library.h"

#include <dlfcn.h>

namespace tf_collectives::cuda {

bool SharedLibrary::Open(const std::string& name, Lookup lookup) {
  const int flags = RTLD_NOW | RTLD_LOCAL | (lookup == Lookup::kLoadedAlready ? RTLD_NOLOAD : 0);
  handle_ = dlopen(name.c_str(), flags);
  if (handle_ != nullptr) return true;
  const char* reason = dlerror();
  error_ = reason != nullptr ? reason : name + " is not loaded";
  return false;
}

void* SharedLibrary::Find(const char* symbol) const { return dlsym(handle_, symbol); }

std::string SharedLibrary::PathOf(const void* symbol) {
  Dl_info info;
  return dladdr(symbol, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

std::string SymbolResolver::MissingList() const {
  std::string list;
  for (const std::string& symbol : missing_) list += (list.empty() ? "" : ", ") + symbol;
  return list;
}

}  // namespace tf_collectives::cuda
