// Gloo writes to sockets without MSG_NOSIGNAL: a peer's death would end this process too. While one
// of these lives, its thread, and threads that it starts, get an error instead.
#ifndef LOCKSTEP_WORKER_TRAINER_COLLECTIVES_STORE_NO_SIGPIPE_H_
#define LOCKSTEP_WORKER_TRAINER_COLLECTIVES_STORE_NO_SIGPIPE_H_

#include <signal.h>

#include <ctime>

namespace lockstep::collectives {

class NoSigpipe {
 public:
  NoSigpipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoSigpipe() {
    // Discards a SIGPIPE that came meanwhile, so that it is not delivered now.
    const timespec at_once{};
    if (sigismember(&before_, SIGPIPE) == 0) {
      while (sigtimedwait(&pipe_, nullptr, &at_once) > 0) {
      }
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  sigset_t pipe_{};
  sigset_t before_{};
};

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_WORKER_TRAINER_COLLECTIVES_STORE_NO_SIGPIPE_H_
