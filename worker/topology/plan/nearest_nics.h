// Which of a machine's network cards are near to a process. Pure; part of the planner
// (binding_plan.h).
#ifndef LOCKSTEP_WORKER_TOPOLOGY_PLAN_NEAREST_NICS_H_
#define LOCKSTEP_WORKER_TOPOLOGY_PLAN_NEAREST_NICS_H_

#include <string>
#include <vector>

#include "worker/topology/topology.h"

namespace lockstep::topology {

// Of the cards that are up, RDMA devices where there are any: for each GPU those on the nearest
// common bridge, else of its NUMA node; without a GPU, those of the nodes.
// Their Nic::names; `gpus` are indices into the machine's.
std::vector<std::string> NearestNics(const Machine& machine, const std::vector<int>& gpus,
                                     const IndexList& nodes);

}  // namespace lockstep::topology

#endif  // LOCKSTEP_WORKER_TOPOLOGY_PLAN_NEAREST_NICS_H_
