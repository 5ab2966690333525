// Starting a thread without exceptions: std::thread throws when no process number is left, which a
// job's own processes can bring about.
#ifndef LOCKSTEP_BASE_THREAD_H_
#define LOCKSTEP_BASE_THREAD_H_

#include <string>
#include <system_error>
#include <thread>
#include <utility>

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

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_THREAD_H_
