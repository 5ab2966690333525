#include "worker/agent/spare.h"

#include <csignal>
#include <initializer_list>

#include "core/exit_codes.h"

namespace lockstep::agent {

int WaitAsSpare() {
  // Process 1 of a container gets no signal that it does not ask for; nothing is its child.
  sigset_t asked;
  sigemptyset(&asked);
  for (const int number : {SIGTERM, SIGINT}) sigaddset(&asked, number);
  sigprocmask(SIG_BLOCK, &asked, nullptr);
  int number = 0;
  sigwait(&asked, &number);
  return core::kExitSuccess;
}

}  // namespace lockstep::agent
