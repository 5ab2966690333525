// Who descends from a process. A program of the user may fork twice, call setsid and change its
// process group; it can not change its descent: what loses its parent is given to the nearest
// subreaper above it, which is the agent. Read from /proc.
#ifndef LOCKSTEP_WORKER_AGENT_PROCESSES_DESCENDANTS_H_
#define LOCKSTEP_WORKER_AGENT_PROCESSES_DESCENDANTS_H_

#include <sys/types.h>

#include <set>
#include <string>
#include <vector>

namespace lockstep::agent {

struct Descendant {
  pid_t pid = 0;
  pid_t parent = 0;
};

// The children of `parent`, of all its threads, dead ones not yet reaped included. Exact for the
// calling process itself, whose children only it can reap.
std::vector<pid_t> ChildrenOf(pid_t parent);

// Parents before their children; neither `root` nor those of `left_out` and what descends from
// them. While processes fork and die it may miss some: kill what it shows, and look again.
std::vector<Descendant> DescendantsOf(pid_t root, const std::set<pid_t>& left_out);

// SIGKILL to one process that is still who it was: a number used anew is not hit.
void KillDescendant(const Descendant& descendant, pid_t root);

// SIGKILL to everything that DescendantsOf shows now; how many that were.
size_t KillDescendants(pid_t root, const std::set<pid_t>& left_out);

// Whether the kernel has begun to end the process, with all its threads. Its connections may be
// gone by now, while its memory and devices are still being given back: it is no zombie yet.
bool IsEnding(pid_t pid);

// "4711 (python, state D)": for messages.
std::string DescribeProcess(pid_t pid);

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_PROCESSES_DESCENDANTS_H_
