// Ctrl-C and SIGTERM for commands that measure: they look at Interrupted() and end early.
#ifndef LOCKSTEP_CLI_COMMANDS_INTERRUPT_H_
#define LOCKSTEP_CLI_COMMANDS_INTERRUPT_H_

#include <array>
#include <atomic>
#include <csignal>

namespace lockstep::cli {

// Set by the signals while a StopSignals lives.
const std::atomic<bool>& Interrupted();

// Makes the signals that stop a program set Interrupted() while it lives. Signals that the program
// was started to ignore (nohup) stay ignored.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

 private:
  static constexpr std::array<int, 3> kSignals = {SIGINT, SIGTERM, SIGHUP};

  std::array<struct sigaction, kSignals.size()> old_{};
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_COMMANDS_INTERRUPT_H_
