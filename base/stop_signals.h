// SIGTERM and SIGINT, kept for whoever asks for them later.
#ifndef LOCKSTEP_BASE_STOP_SIGNALS_H_
#define LOCKSTEP_BASE_STOP_SIGNALS_H_

#include <csignal>
#include <initializer_list>

namespace lockstep {

// To process 1 of a PID namespace the kernel sends no signal that it does not handle yet: it would
// be lost. A blocked one waits. Returns which they are; may be called between fork and exec.
inline sigset_t KeepStopSignals() noexcept {
  sigset_t asked;
  sigemptyset(&asked);
  for (const int number : {SIGTERM, SIGINT}) sigaddset(&asked, number);
  sigprocmask(SIG_BLOCK, &asked, nullptr);
  return asked;
}

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_STOP_SIGNALS_H_
