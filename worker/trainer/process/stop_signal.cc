#include "worker/trainer/process/stop_signal.h"

#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>

namespace lockstep::trainer {

StopSignal::StopSignal() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  fd_.reset(signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC));
}

bool StopSignal::Asked() {
  signalfd_siginfo info{};
  if (!asked_ && fd_.valid()) asked_ = read(fd_.get(), &info, sizeof info) == sizeof info;
  return asked_;
}

}  // namespace lockstep::trainer
