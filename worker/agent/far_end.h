// The far end of a `lockstep run` on another computer, where ssh or srun started this program: it
// stands beside the agent as `lockstep run` does on its own computer. It starts the agent in a PID
// namespace where that is allowed, gives it a private folder, passes orders on, and tells how it
// ended once nothing that it started is alive. When its stdin ends, nobody asks for the agent any
// more, and it is killed. core/plan/far_end.h has the words.
#ifndef LOCKSTEP_WORKER_AGENT_FAR_END_H_
#define LOCKSTEP_WORKER_AGENT_FAR_END_H_

#include <functional>
#include <string>

#include "base/result.h"

namespace lockstep::agent {

// The exit code: the agent's, or 128 + the signal that ended it. `namespaces`: where allowed.
int RunAsFarEnd(bool namespaces);

// Conflict: another process listens on `listen`, an IP:PORT. This function listens there itself,
// and no longer when it returns: an agent that is told its port then can take it at once.
Status CheckPortIsFree(const std::string& listen);

// Prints core::AgentFacts. An Error: this node can be no machine.
Status PrintFacts();

// The address of the computer that srun or ssh was started on; `variable` looks in the environment.
// Invalid: neither of them started this.
Result<std::string> StarterAddress(
    const std::function<std::string(const std::string& name)>& variable);

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_FAR_END_H_
