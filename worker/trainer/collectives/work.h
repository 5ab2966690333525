// What a Work shares with the Communicator that carries it out.
#ifndef LOCKSTEP_WORKER_TRAINER_COLLECTIVES_WORK_H_
#define LOCKSTEP_WORKER_TRAINER_COLLECTIVES_WORK_H_

#include <atomic>
#include <condition_variable>

#include "base/thread_annotations.h"
#include "worker/trainer/collectives/collectives.h"

namespace lockstep::collectives {

struct Work::State {
  // Before Complete(): the operation is in a stream, and `at_end` is recorded behind it; null in
  // host memory.
  void Begun(const CudaEvent* at_end) {
    const MutexLock lock(&mutex);
    end = at_end;
    changed.notify_all();
  }
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
  const CudaEvent* end GUARDED_BY(mutex) = nullptr;
};

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_WORKER_TRAINER_COLLECTIVES_WORK_H_
