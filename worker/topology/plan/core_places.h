// Which cores each of a computer's processes is bound to: those of its GPUs' NUMA nodes, else an
// even cut, then as the mode has it. Pure; part of the planner (binding_plan.h).
#ifndef LOCKSTEP_WORKER_TOPOLOGY_PLAN_CORE_PLACES_H_
#define LOCKSTEP_WORKER_TOPOLOGY_PLAN_CORE_PLACES_H_

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "worker/topology/plan/binding_plan.h"
#include "worker/topology/plan/gpu_choice.h"

namespace lockstep::topology {

// Of one rank of the computer.
struct CorePlace {
  IndexList nodes;            // that it is bound to, -1 for cores of no known node
  std::vector<size_t> cores;  // indices into CorePlaces::cores, ascending
  IndexList mapped_cpus;      // the map's own; empty: all of the cores
  IndexList mapped_memory;    // the map's own; empty: the nodes of the cores
  std::string reason;         // why this is less than was asked
};

class CorePlaces {
 public:
  // `gpus`: of each rank of the computer, machine after machine.
  CorePlaces(const Machine& machine, const BindingRequest& request,
             const std::vector<std::vector<VisibleGpu>>& gpus);

  const std::vector<Core>& cores() const { return cores_; }  // by NUMA node, then CPU
  const std::vector<CorePlace>& of_ranks() const { return places_; }

  // The cores it has, divided by the ranks it shares them with, and no more than its part of the
  // CPU quota.
  int Threads(const CorePlace& place) const;

 private:
  void Place();
  IndexList NodesOfGpus(size_t k, CorePlace* place) const;
  std::optional<int> OnlyNode() const;
  std::optional<int> NodeOfGpu(const Gpu& gpu, std::string* reason) const;
  std::optional<int> Nearest(const NumaNode& from, bool open) const;
  void WidenToSockets();
  void NarrowToCaches();
  std::vector<std::vector<size_t>> CachesOf(const IndexList& nodes) const;
  void MakeExclusive();
  void PlaceByMap(const core::MappedProcess& mapped, size_t k, CorePlace* place) const;
  void CountRanks();
  static IndexList NodesOf(const std::vector<Core>& cores);
  std::vector<size_t> CoresOf(const IndexList& nodes) const;
  std::vector<size_t> CoresWithin(const IndexList& cpus) const;
  std::vector<size_t> AllCores() const;
  std::vector<size_t> Indices(const std::vector<Core>& share) const;

  const Machine& machine_;
  const BindingRequest& request_;
  const std::vector<std::vector<VisibleGpu>>& gpus_;
  const std::vector<Core> cores_;
  std::map<int, std::vector<size_t>> cores_of_;
  std::vector<std::vector<Core>> shares_;  // an even cut, for who has no place of its own
  std::vector<CorePlace> places_;
  std::vector<size_t> ranks_on_core_;
};

}  // namespace lockstep::topology

#endif  // LOCKSTEP_WORKER_TOPOLOGY_PLAN_CORE_PLACES_H_
