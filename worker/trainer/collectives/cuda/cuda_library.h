// A shared library opened at run time, so that one program serves machines with and without it.
#ifndef LOCKSTEP_WORKER_TRAINER_COLLECTIVES_CUDA_CUDA_LIBRARY_H_
#define LOCKSTEP_WORKER_TRAINER_COLLECTIVES_CUDA_CUDA_LIBRARY_H_

#include <string>

#include "base/result.h"

namespace lockstep::collectives {

class SharedLibrary {
 public:
  // The file that environment variable `variable` names, else `name` as the dynamic loader finds
  // it. kNotFound with the loader's words. It stays loaded until the process ends: libraries of
  // this kind have threads of their own.
  static Result<SharedLibrary> Open(const char* variable, const char* name);

  // What was opened.
  const std::string& path() const { return path_; }

  // Sets *function to the symbol; kNotFound names it.
  template <typename Function>
  Status Bind(const char* symbol, Function** function) const {
    Result<void*> found = Find(symbol);
    if (!found.ok()) return found.error();
    // POSIX promises that a function's address survives this.
    *function = reinterpret_cast<Function*>(*found);
    return {};
  }

 private:
  SharedLibrary(std::string path, void* handle) : path_(std::move(path)), handle_(handle) {}
  Result<void*> Find(const char* symbol) const;

  std::string path_;
  void* handle_;
};

// Binds until the first symbol that is missing.
class Binder {
 public:
  explicit Binder(const SharedLibrary& library) : library_(library) {}

  template <typename Function>
  Binder& operator()(const char* symbol, Function** function) {
    if (status_.ok()) status_ = library_.Bind(symbol, function);
    return *this;
  }
  const Status& status() const { return status_; }

 private:
  const SharedLibrary& library_;
  Status status_;
};

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_WORKER_TRAINER_COLLECTIVES_CUDA_CUDA_LIBRARY_H_
