// A mutex that clang's -Wthread-safety understands: every member shared between threads says which
// mutex guards it, and the compiler checks it.
#ifndef LOCKSTEP_BASE_THREAD_ANNOTATIONS_H_
#define LOCKSTEP_BASE_THREAD_ANNOTATIONS_H_

#include <mutex>

#if defined(__clang__)
#define LOCKSTEP_ATTRIBUTE(x) __attribute__((x))
#else
#define LOCKSTEP_ATTRIBUTE(x)
#endif

#define CAPABILITY(x) LOCKSTEP_ATTRIBUTE(capability(x))
#define SCOPED_CAPABILITY LOCKSTEP_ATTRIBUTE(scoped_lockable)
#define GUARDED_BY(x) LOCKSTEP_ATTRIBUTE(guarded_by(x))
#define ACQUIRE(...) LOCKSTEP_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define RELEASE(...) LOCKSTEP_ATTRIBUTE(release_capability(__VA_ARGS__))
#define REQUIRES(...) LOCKSTEP_ATTRIBUTE(requires_capability(__VA_ARGS__))

namespace lockstep {

class CAPABILITY("mutex") Mutex {
 public:
  // Lower case, as std::condition_variable_any calls them.
  void lock() ACQUIRE() { mutex_.lock(); }
  void unlock() RELEASE() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

class SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) ACQUIRE(mutex) : mutex_(mutex) { mutex_->lock(); }
  ~MutexLock() RELEASE() { mutex_->unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* mutex_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_THREAD_ANNOTATIONS_H_
