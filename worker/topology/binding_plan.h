// Plans which process is bound where: a pure function from a machine's topology to the CPUs and
// memory of each of its processes.
//
//   Bind::kNode, process with a GPU     all allowed cores of the GPU's NUMA node (as
//                                           torchrun's --numa-binding=node), shared with the
//                                           other processes whose GPU is there
//   Bind::kNode, process without        its own share of the allowed cores, cut first between
//                                           NUMA nodes, then between cores
//
// A plan never leaves Machine::allowed_cpus, never cuts a core in two, and gives a core to two
// processes without a GPU only when there are more processes than cores. When a request cannot be
// met it plans the nearest thing and gives the reason; binding never fails a job.
#ifndef LOCKSTEP_WORKER_TOPOLOGY_BINDING_PLAN_H_
#define LOCKSTEP_WORKER_TOPOLOGY_BINDING_PLAN_H_

#include <string>
#include <vector>

#include "core/model/spec.h"
#include "worker/topology/topology.h"

namespace lockstep::topology {

using core::Bind;          // kNone, kNode
using core::MemoryPolicy;  // kNone: first touch; kPreferred: the process's node while it has room;
                           // kStrict: the process's node or the OOM killer

// The binding of one process.
struct RankBinding {
  int local_rank = 0;
  IndexList cpus;      // empty: left as inherited
  int numa_node = -1;  // the node its CPUs are on; -1: several, or unknown
  MemoryPolicy memory = MemoryPolicy::kNone;
  IndexList memory_nodes;  // empty exactly when memory is kNone
  int gpu = -1;            // index into Machine::gpus
  int omp_threads = 1;     // OMP_NUM_THREADS: cores it has for itself, within the CPU quota; >= 1
  std::string reason;      // why this is less than was asked; empty when it isn't
};

struct BindingPlan {
  Bind mode = Bind::kNone;
  MemoryPolicy memory = MemoryPolicy::kNone;
  std::vector<RankBinding> ranks;  // by local rank
};

// `processes` >= 1, all of this machine. Local rank l uses GPU l mod the number of GPUs. With
// Bind::kNone nothing is bound, memory neither, and only omp_threads is planned.
BindingPlan PlanBinding(const Machine& machine, Bind mode, MemoryPolicy memory, int processes);

}  // namespace lockstep::topology

#endif  // LOCKSTEP_WORKER_TOPOLOGY_BINDING_PLAN_H_
