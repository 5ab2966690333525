// Binds a process to CPUs and memory between clone and execve, so that all its pages and threads
// are placed from the start.
//
//   PreparedBinding prepared = Prepare(plan.ranks[local_rank]);      // parent, may allocate
//   ... in the child, before execve:  BindingErrno result = ApplyInChild(prepared);
//   EffectiveBinding effective = ReadBack({...});                    // parent, effective.h
//
// A refusal is reported, never fatal: a container's seccomp profile often forbids set_mempolicy.
#ifndef LOCKSTEP_WORKER_TOPOLOGY_BINDING_APPLY_H_
#define LOCKSTEP_WORKER_TOPOLOGY_BINDING_APPLY_H_

#include <vector>

#include "worker/topology/plan/binding_plan.h"

namespace lockstep::topology {

// The bit masks of the two system calls. The parent makes them; the child only reads them.
struct PreparedBinding {
  std::vector<unsigned long> cpu_mask;   // empty: affinity stays as inherited
  std::vector<unsigned long> node_mask;  // empty: memory policy stays as inherited
  MemoryPolicy memory = MemoryPolicy::kNone;
};

// errno of each call; 0: it succeeded or wasn't needed.
struct BindingErrno {
  int affinity = 0;  // of sched_setaffinity
  int memory = 0;    // of set_mempolicy
};

PreparedBinding Prepare(const RankBinding& rank);

// Binds the calling thread. Async-signal-safe: allocates nothing and writes only its result and
// errno, so it may run in a child of clone(CLONE_VM | CLONE_VFORK). The child shares the parent's
// errno, so the parent must not use errno across the clone. Execve keeps both settings.
//
// Preferred is MPOL_PREFERRED_MANY, or MPOL_PREFERRED on kernels before 5.15; Strict is MPOL_BIND,
// or as Preferred where the kernel won't have that; Interleave is MPOL_INTERLEAVE. What is refused
// altogether leaves first touch, which is local to CPUs of one node.
BindingErrno ApplyInChild(const PreparedBinding& binding) noexcept;

}  // namespace lockstep::topology

#endif  // LOCKSTEP_WORKER_TOPOLOGY_BINDING_APPLY_H_
