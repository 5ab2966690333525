// lockstep-agent --sync-receive FOLDER: brings new code from a user's computer to the agent of that
// run folder, machine 0's. `kubectl lockstep sync` starts it by `kubectl exec -i`, and both talk
// over its stdin and stdout. docs/reference/protocol.md has the lines.
#ifndef LOCKSTEP_WORKER_AGENT_SYNC_RECEIVE_H_
#define LOCKSTEP_WORKER_AGENT_SYNC_RECEIVE_H_

#include <string>

#include "base/result.h"

namespace lockstep::agent {

// Until the end of stdin. An error: there is no agent, it has no gang, or a line is not valid.
Status ReceiveCode(const std::string& run_dir);

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_SYNC_RECEIVE_H_
