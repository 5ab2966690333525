// NoThreads: while it lives, no thread can be started in this process, as where the system has none
// left: the next one's stack is larger than any address space.
#ifndef LOCKSTEP_TESTS_BASE_NO_THREADS_H_
#define LOCKSTEP_TESTS_BASE_NO_THREADS_H_

#include <pthread.h>

#include <cstddef>

namespace lockstep {

class NoThreads {
 public:
  NoThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t huge;
    pthread_attr_init(&huge);
    pthread_attr_setstacksize(&huge, size_t{1} << 62);
    pthread_setattr_default_np(&huge);
    pthread_attr_destroy(&huge);
  }
  ~NoThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  pthread_attr_t before_{};
};

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_BASE_NO_THREADS_H_
