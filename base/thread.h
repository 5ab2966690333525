// Starting threads where no process number may be left, which a job's own processes can bring
// about: std::thread then throws "Resource temporarily unavailable". All threads of Lockstep are
// started here; tools/check refuses std::thread's own constructor.
#ifndef LOCKSTEP_BASE_THREAD_H_
#define LOCKSTEP_BASE_THREAD_H_

#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/result.h"

namespace lockstep {

// Internal: the system has no thread left.
template <typename Work>
Result<std::thread> StartThread(Work work) {
  try {
    return std::thread(std::move(work));
  } catch (const std::system_error& error) {
    return Error::Internal("no thread can be started (" + error.code().message() +
                           "): end processes, or raise the limit on them (pids.max of the "
                           "cgroup, ulimit -u)");
  }
}

// For the constructor of what cannot be without its thread: throws std::runtime_error with those
// words, which each program's main prints before it leaves. What was constructed before must join
// its own threads when it is destroyed.
template <typename Work>
std::thread StartThreadOrThrow(Work work) {
  Result<std::thread> thread = StartThread(std::move(work));
  if (!thread.ok()) throw std::runtime_error(thread.error().message);
  return std::move(*thread);
}

// Threads that are joined at the latest when this is destroyed, whatever is thrown meanwhile.
class ThreadGroup {
 public:
  ThreadGroup() = default;
  ~ThreadGroup() { Join(); }
  ThreadGroup(const ThreadGroup&) = delete;
  ThreadGroup& operator=(const ThreadGroup&) = delete;

  template <typename Work>
  Status Start(Work work) {
    Result<std::thread> thread = StartThread(std::move(work));
    if (!thread.ok()) return thread.error();
    threads_.push_back(std::move(*thread));
    return {};
  }
  void Join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  size_t size() const { return threads_.size(); }

 private:
  std::vector<std::thread> threads_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_THREAD_H_
