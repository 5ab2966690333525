// Signals that ask a program to end in order, so that what it started can save: the table that
// `lockstep run`, the agents and the operator share (docs/reference/cli.md, "Signals").
#ifndef LOCKSTEP_BASE_PROCESS_STOP_SIGNALS_H_
#define LOCKSTEP_BASE_PROCESS_STOP_SIGNALS_H_

#include <array>
#include <csignal>

namespace lockstep {

// A batch system's warnings: the end of a job's time or a suspend is near.
inline constexpr std::array kWarningSignals = {SIGUSR1, SIGUSR2, SIGXCPU, SIGPWR};

inline constexpr std::array kStopSignals = {SIGTERM, SIGINT,  SIGHUP, SIGUSR1,
                                            SIGUSR2, SIGXCPU, SIGPWR};

// In a container: the image's STOPSIGNAL, which its runtime sends in place of SIGTERM, can be one
// of a web server (SIGQUIT) or of an init system, too.
inline sigset_t ContainerStopSignals() noexcept {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : kStopSignals) sigaddset(&signals, number);
  sigaddset(&signals, SIGQUIT);
  sigaddset(&signals, SIGRTMIN + 3);
  return signals;
}

// To process 1 of a PID namespace the kernel sends no signal that it does not handle yet: it would
// be lost. A blocked one waits. Returns which they are; may be called between fork and exec.
inline sigset_t KeepStopSignals() noexcept {
  const sigset_t asked = ContainerStopSignals();
  sigprocmask(SIG_BLOCK, &asked, nullptr);
  return asked;
}

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_PROCESS_STOP_SIGNALS_H_
