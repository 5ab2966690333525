#include "worker/agent/spare.h"

#include <csignal>

#include "base/process/stop_signals.h"
#include "core/exit_codes.h"

namespace lockstep::agent {

int WaitAsSpare() {
  const sigset_t asked = KeepStopSignals();
  int number = 0;
  sigwait(&asked, &number);
  return core::kExitSuccess;
}

}  // namespace lockstep::agent
