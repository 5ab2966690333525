// Cutting the allowed cores of a machine into one share a process.
#ifndef LOCKSTEP_WORKER_TOPOLOGY_PLAN_CORE_SPLIT_H_
#define LOCKSTEP_WORKER_TOPOLOGY_PLAN_CORE_SPLIT_H_

#include <vector>

#include "worker/topology/topology.h"

namespace lockstep::topology {

// The allowed CPUs of each core, sorted by NUMA node and then by CPU. An allowed CPU that belongs
// to no known core counts as a core.
std::vector<Core> AllowedCores(const Machine& machine);

// One share a process, in order of rank; `cores` as AllowedCores gives them, not empty.
//  - As many processes as NUMA nodes or more: every process stays within one node, and processes
//    are given to nodes so that the smallest share is as large as it can be.
//  - Fewer: every process gets whole nodes, neighbours in number.
//  - More processes than cores: processes share whole cores.
std::vector<std::vector<Core>> SplitCores(const std::vector<Core>& cores, int processes);

}  // namespace lockstep::topology

#endif  // LOCKSTEP_WORKER_TOPOLOGY_PLAN_CORE_SPLIT_H_
