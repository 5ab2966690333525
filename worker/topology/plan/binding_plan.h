// Plans which process is bound where: a pure function from a machine's topology and what is asked
// to the CPUs, memory, GPUs and network card of each of its processes.
//
//   Bind::kNode         all allowed cores of its GPUs' NUMA nodes, shared with the other processes
//                       whose GPUs are there; without a GPU its own share of the allowed cores, cut
//                       first between NUMA nodes, then between cores
//   Bind::kSocket       as kNode, and all nodes of the packages that those are on
//   Bind::kCoreComplex  of those cores the ones under one last-level cache, processes dealt out to
//                       caches in turn
//   Bind::kExclusive    of those cores a share that no other process of the machine has
//   Bind::kInterleave   all allowed cores, memory spread over their nodes
//   Bind::kMap          what the job says by local rank
//
// A plan never leaves Machine::allowed_cpus, never cuts a core in two (but for kMap), and gives a
// core to two processes of a share only when there are more processes than cores. What cannot be
// had becomes the nearest thing and a reason; only TopologyPolicy::kRequired makes it an error,
// which stands beside the plan.
#ifndef LOCKSTEP_WORKER_TOPOLOGY_PLAN_BINDING_PLAN_H_
#define LOCKSTEP_WORKER_TOPOLOGY_PLAN_BINDING_PLAN_H_

#include <optional>
#include <string>
#include <vector>

#include "core/model/spec.h"
#include "core/plan/environment.h"
#include "worker/topology/topology.h"

namespace lockstep::topology {

using core::Bind;
using core::MemoryPolicy;  // kNone: first touch; kPreferred: the process's nodes while they have
                           // room; kStrict: those or the OOM killer; kInterleave: those, in turn

// What is asked of one machine.
struct BindingRequest {
  Bind mode = Bind::kNode;
  MemoryPolicy memory = MemoryPolicy::kPreferred;
  core::TopologyPolicy policy = core::TopologyPolicy::kPreferred;
  int processes = 1;      // ranks of this machine, whoever starts them; at least 1
  bool launcher = false;  // one process starts them all: it gets what all of them would get
  // GPUs of each rank. Not said: all for one process, and one for each of several, in order.
  std::optional<int> gpus{};
  std::string gpu_resource{};  // what those are: "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"
  core::GpuVisibility visibility = core::GpuVisibility::kShared;
  std::vector<core::MappedProcess> map{};  // with kMap, by local rank
  // CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES and HIP_VISIBLE_DEVICES, as far as the processes
  // have them: they choose among the GPUs.
  core::Variables variables{};
  // This machine is the `part`-th of `parts` on the computer, alike in all: each has its own GPUs
  // and cores.
  int part = 0;
  int parts = 1;
};

// What a job asks of each of its machines. `environment`: "NAME=value", as the processes inherit
// it; the job's own env goes before it.
BindingRequest RequestOf(const core::Spec& spec, const std::vector<std::string>& environment);

// The binding of one process.
struct RankBinding {
  int local_rank = 0;
  IndexList cpus;      // empty: left as inherited
  int numa_node = -1;  // the node its CPUs are on; -1: several, or unknown
  MemoryPolicy memory = MemoryPolicy::kNone;
  IndexList memory_nodes;         // empty exactly when memory is kNone
  std::vector<int> gpus;          // indices into Machine::gpus, in the order of the process's own
  std::vector<std::string> nics;  // Nic::name of those nearest to its GPUs, or CPUs; all alike near
  bool has_gpu = false;           // also one that can't be told
  // The variables that show it these GPUs and no others, for GpuVisibility::kIsolated; empty where
  // there are no names for them.
  core::Variables isolated;
  int omp_threads = 1;  // OMP_NUM_THREADS: cores it has for itself, within the CPU quota; of each
                        // rank where it is a launcher, whose ranks inherit it; >= 1
  std::string reason;   // why this is less than was asked; empty when it isn't
};

struct BindingPlan {
  Bind mode = Bind::kNone;
  MemoryPolicy memory = MemoryPolicy::kNone;
  std::vector<RankBinding> ranks;  // by local rank; one for a launcher
  // The variables that show every process this machine's part of the computer's GPUs; empty where
  // it has them all.
  core::Variables visible;
  std::vector<std::string> notes;  // what whoever runs the job should know: GPUs used twice, ...
  std::string error;  // with TopologyPolicy::kRequired: why the machine must not be used
};

BindingPlan PlanBinding(const Machine& machine, const BindingRequest& request);

// Of all `request.parts` machines of a computer, in order.
std::vector<BindingPlan> PlanComputer(const Machine& machine, const BindingRequest& request);

}  // namespace lockstep::topology

#endif  // LOCKSTEP_WORKER_TOPOLOGY_PLAN_BINDING_PLAN_H_
