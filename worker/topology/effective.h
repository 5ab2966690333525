// The binding that is in effect for a process, read back from the kernel. It differs from the plan
// when a cpuset, a seccomp profile or the machine does not allow the plan.
#ifndef LOCKSTEP_WORKER_TOPOLOGY_EFFECTIVE_H_
#define LOCKSTEP_WORKER_TOPOLOGY_EFFECTIVE_H_

#include <sys/types.h>

#include <string>

#include "core/gang/messages.h"
#include "worker/topology/apply.h"
#include "worker/topology/binding_plan.h"

namespace lockstep::topology {

struct EffectiveBinding {
  core::Binding mode = core::Binding::kNone;
  IndexList cpus;             // Cpus_allowed_list
  IndexList mems;             // Mems_allowed_list: what the cpuset allows, not the policy
  std::string memory_policy;  // "prefer:0", "bind:0-1", "default" as in numa_maps; "" unknown
  std::string reason;         // why it is less than asked; empty when it isn't

  // "Node (asked Node)", "None (asked Node): sched_setaffinity: EPERM".
  std::string ToString(Bind asked) const;
};

// Reads /proc/<pid>/status and numa_maps below `root`; call it once the process has exec'ed.
// `asked` is `topology.bind`, `rank` the plan and `result` what ApplyInChild returned. A process
// that is gone gives kNone and a reason that says so.
EffectiveBinding ReadBack(pid_t pid, Bind asked, const RankBinding& rank,
                          const BindingErrno& result, const std::string& root = "/");

}  // namespace lockstep::topology

#endif  // LOCKSTEP_WORKER_TOPOLOGY_EFFECTIVE_H_
