// Ends another thread's poll(): an eventfd.
#ifndef LOCKSTEP_WORKER_TRAINER_COLLECTIVES_STORE_WAKE_H_
#define LOCKSTEP_WORKER_TRAINER_COLLECTIVES_STORE_WAKE_H_

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

#include "worker/trainer/collectives/store/socket.h"

namespace lockstep::collectives {

class Wake {
 public:
  Wake() : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

  int fd() const { return fd_.get(); }
  // From any thread.
  void Signal() {
    const uint64_t one = 1;
    // A full counter is signalled already.
    [[maybe_unused]] const ssize_t written = write(fd_.get(), &one, sizeof one);
  }
  void Clear() {
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = read(fd_.get(), &count, sizeof count);
  }

 private:
  UniqueFd fd_;
};

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_WORKER_TRAINER_COLLECTIVES_STORE_WAKE_H_
