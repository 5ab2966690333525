#include "worker/trainer/collectives/cuda/cuda_library.h"

#include <dlfcn.h>

#include <cstdlib>

namespace lockstep::collectives {

Result<SharedLibrary> SharedLibrary::Open(const char* variable, const char* name) {
  const char* chosen = std::getenv(variable);
  const std::string path = chosen != nullptr && *chosen != '\0' ? chosen : name;
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* reason = dlerror();
    return Error::NotFound("cannot open " + path + (reason == nullptr ? "" : " (") +
                           (reason == nullptr ? "" : std::string(reason) + ")"));
  }
  return SharedLibrary(path, handle);
}

Result<void*> SharedLibrary::Find(const char* symbol) const {
  void* address = dlsym(handle_, symbol);
  if (address == nullptr) return Error::NotFound(path_ + " has no function " + symbol);
  return address;
}

}  // namespace lockstep::collectives
