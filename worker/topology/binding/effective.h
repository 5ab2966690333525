// The binding that is in effect for a process, read back from the kernel. It differs from the plan
// when a cpuset, a seccomp profile or the machine does not allow the plan.
#ifndef LOCKSTEP_WORKER_TOPOLOGY_BINDING_EFFECTIVE_H_
#define LOCKSTEP_WORKER_TOPOLOGY_BINDING_EFFECTIVE_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"
#include "core/gang/protocol/messages.h"
#include "worker/topology/binding/apply.h"
#include "worker/topology/plan/binding_plan.h"

namespace lockstep::topology {

// Where a process's own memory is: heap, stacks, anonymous mappings. Pages of files don't count,
// for they lie where they were first read.
struct MemoryPlacement {
  uint64_t local_bytes = 0;   // on Locality::local
  uint64_t remote_bytes = 0;  // on Locality::remote

  friend bool operator==(const MemoryPlacement&, const MemoryPlacement&) = default;
};

// NUMA nodes as a rank has them. A node without CPUs, as a GPU's memory or CXL's, is neither: it is
// for the program to say what goes there.
struct Locality {
  IndexList local;   // from which its memory should come: its memory policy's, or its CPUs'
  IndexList remote;  // all others; none where no node is far away, or that is unknown
};

Locality LocalityOf(const Machine& machine, const RankBinding& rank);

// Of the text of /proc/<pid>/numa_maps.
MemoryPlacement PlacementOf(std::string_view numa_maps, const Locality& nodes);

// How long to wait before the memory of a machine's ranks is read again, which `took` so long. A
// rank stands still for it and the gang with it, and `machines` are not in step: together they take
// a hundredth of the gang's time.
Duration PlacementPause(Duration took, int machines);

struct EffectiveBinding {
  core::Binding mode = core::Binding::kNone;
  IndexList cpus;             // Cpus_allowed_list
  IndexList mems;             // Mems_allowed_list: what the cpuset allows, not the policy
  std::string memory_policy;  // "prefer:0", "bind:0-1", "default" as in numa_maps; "" unknown
  std::optional<MemoryPlacement> placement;  // none where there is no NUMA node to be near to
  std::string reason;                        // why it is less than asked; empty when it isn't
  std::string note;                          // worth knowing where it is as asked

  // "Node (asked Node)", "None (asked Node): sched_setaffinity: EPERM".
  std::string ToString(Bind asked) const;
};

// A process as it was started.
struct BoundProcess {
  pid_t pid = 0;
  Bind asked = Bind::kNone;  // topology.bind
  RankBinding rank;          // the plan
  BindingErrno result;       // what ApplyInChild returned
  Locality nodes;
  // An earlier ReadBack found it as asked: where it is or its policy is another now, that is its
  // own doing, and no reason.
  bool was_as_asked = false;
};

// Reads /proc/<pid>/status and numa_maps below `root`; call it once the process has exec'ed. A
// process that is gone gives kNone and a reason that says so. One that narrowed itself to some of
// its CPUs, as OpenMP and taskset do, is as asked.
//
// The kernel walks all of a process's memory for numa_maps, some 10 ms a GiB: only a process that
// has just been exec'ed is read on a thread that others wait for.
EffectiveBinding ReadBack(const BoundProcess& process, const std::string& root = "/");

}  // namespace lockstep::topology

#endif  // LOCKSTEP_WORKER_TOPOLOGY_BINDING_EFFECTIVE_H_
