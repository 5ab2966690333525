// What a Work shares with the Communicator that carries it out.
#ifndef LOCKSTEP_WORKER_COLLECTIVES_WORK_H_
#define LOCKSTEP_WORKER_COLLECTIVES_WORK_H_

#include <atomic>
#include <condition_variable>
#include <memory>
#include <optional>

#include "base/thread_annotations.h"
#include "worker/collectives/collectives.h"

namespace lockstep::collectives {

struct Work::State {
  explicit State(std::shared_ptr<std::atomic<int64_t>> waited_total)
      : waited(std::move(waited_total)) {}

  // Once.
  void Complete(Status with) {
    const MutexLock lock(&mutex);
    status = std::move(with);
    done.store(true, std::memory_order_release);
    changed.notify_all();
  }

  std::atomic<bool> done{false};
  Mutex mutex;
  std::condition_variable_any changed;
  Status status GUARDED_BY(mutex);
  // Nanoseconds that callers spent waiting, of the whole Communicator.
  const std::shared_ptr<std::atomic<int64_t>> waited;
};

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_WORKER_COLLECTIVES_WORK_H_
