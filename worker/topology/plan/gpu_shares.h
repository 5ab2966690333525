// Which of a computer's GPUs each of its processes has: those that are visible, shared out between
// its machines and then between a machine's ranks. Pure; part of the planner (binding_plan.h).
#ifndef LOCKSTEP_WORKER_TOPOLOGY_PLAN_GPU_SHARES_H_
#define LOCKSTEP_WORKER_TOPOLOGY_PLAN_GPU_SHARES_H_

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "worker/topology/plan/binding_plan.h"
#include "worker/topology/plan/gpu_choice.h"

namespace lockstep::topology {

class GpuShares {
 public:
  GpuShares(const Machine& machine, const BindingRequest& request);

  // By rank of the computer, machine after machine.
  const std::vector<std::vector<VisibleGpu>>& of_ranks() const { return of_ranks_; }
  // What whoever runs the job should know.
  const std::vector<std::string>& notes() const { return notes_; }

  // The variables that show a process these GPUs and no others; empty where there are no names for
  // them.
  core::Variables VariablesFor(std::span<const VisibleGpu> gpus) const;
  // Those that show every process of a machine its part; empty where it has all GPUs.
  core::Variables ShowPart(size_t part) const;

 private:
  void Assign();
  std::span<const VisibleGpu> PartOf(size_t part) const;
  size_t Each() const;
  void Shortage(size_t wanted);
  bool Slices() const;
  void Note(const std::string& note);

  const BindingRequest& request_;
  const GpuChoice choice_;
  std::vector<std::vector<VisibleGpu>> of_ranks_;
  bool split_ = false;  // each machine of the computer has its own GPUs
  std::vector<std::string> notes_;
};

}  // namespace lockstep::topology

#endif  // LOCKSTEP_WORKER_TOPOLOGY_PLAN_GPU_SHARES_H_
