// An agent that keeps a place: its node, its GPUs and its image are there when a machine is lost.
// It is in no gang, starts nothing, listens to nobody and holds no key.
#ifndef LOCKSTEP_WORKER_AGENT_SPARE_H_
#define LOCKSTEP_WORKER_AGENT_SPARE_H_

namespace lockstep::agent {

// Until SIGTERM or SIGINT. Its exit code.
int WaitAsSpare();

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_SPARE_H_
