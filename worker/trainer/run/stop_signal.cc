#include "worker/trainer/run/stop_signal.h"

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
  fd_ = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
}

StopSignal::~StopSignal() {
  if (fd_ >= 0) close(fd_);
}

bool StopSignal::Asked() {
  signalfd_siginfo info{};
  if (!asked_ && fd_ >= 0) asked_ = read(fd_, &info, sizeof info) == sizeof info;
  return asked_;
}

}  // namespace lockstep::trainer
