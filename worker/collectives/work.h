// What a Work shares with the Communicator that carries it out.
#ifndef LOCKSTEP_WORKER_COLLECTIVES_WORK_H_
#define LOCKSTEP_WORKER_COLLECTIVES_WORK_H_

#include <atomic>
#include <condition_variable>

#include "base/thread_annotations.h"
#include "worker/collectives/collectives.h"

namespace lockstep::collectives {

struct Work::State {
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
};

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_WORKER_COLLECTIVES_WORK_H_
