// py-spy, where it is installed: the stacks of a Python process that is not armed. It only reads
// (--nonblocking), and is killed when its time is up.
#ifndef LOCKSTEP_WORKER_AGENT_EVIDENCE_PY_SPY_H_
#define LOCKSTEP_WORKER_AGENT_EVIDENCE_PY_SPY_H_

#include <sys/types.h>

#include <string>

#include "base/result.h"
#include "base/time.h"

namespace lockstep::agent {

// NotFound where there is no py-spy in PATH; Unavailable with its own words where it fails. It
// waits: not for the loop's thread. Whoever collects this process's children reaps it.
Result<std::string> RunPySpy(pid_t pid, Time until);

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_EVIDENCE_PY_SPY_H_
