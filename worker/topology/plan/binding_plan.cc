#include "worker/topology/plan/binding_plan.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "core/model/launch.h"
#include "worker/topology/plan/core_places.h"
#include "worker/topology/plan/gpu_shares.h"
#include "worker/topology/plan/nearest_nics.h"
#include "worker/topology/plan/plan_text.h"

namespace lockstep::topology {
namespace {

class Planner {
 public:
  Planner(const Machine& machine, const BindingRequest& request)
      : machine_(machine),
        request_(*Checked(&request)),
        gpus_(machine, request),
        places_(machine, request, gpus_.of_ranks()) {}

  // Of one of the computer's machines.
  BindingPlan PlanPart(int part) const {
    BindingPlan plan;
    plan.mode = request_.mode;
    plan.memory = request_.memory;
    plan.notes = gpus_.notes();
    plan.visible = gpus_.ShowPart(static_cast<size_t>(part));
    const auto processes = static_cast<size_t>(request_.processes);
    const size_t first = static_cast<size_t>(part) * processes;
    if (request_.launcher) {
      plan.ranks.push_back(Finish(first, processes, 0));
    } else {
      for (size_t l = 0; l < processes; ++l) {
        plan.ranks.push_back(Finish(first + l, 1, static_cast<int>(l)));
      }
    }
    Judge(&plan);
    return plan;
  }

 private:
  static const BindingRequest* Checked(const BindingRequest* request) {
    assert(request->processes >= 1);
    assert(request->mode != Bind::kMap ||
           request->map.size() == static_cast<size_t>(request->processes));
    return request;
  }

  // A process of its own, or a launcher of all of them.
  RankBinding Finish(size_t first, size_t count, int local_rank) const {
    RankBinding binding;
    RankBinding* rank = &binding;
    rank->local_rank = local_rank;
    rank->omp_threads = std::numeric_limits<int>::max();
    const std::vector<Core>& cores = places_.cores();
    std::vector<bool> in(cores.size(), false);
    std::vector<VisibleGpu> gpus;
    IndexList mapped_memory;
    IndexList mapped_cpus;
    for (size_t k = first; k < first + count; ++k) {
      const CorePlace& place = places_.of_ranks()[k];
      AddReason(place.reason, &rank->reason);
      rank->omp_threads = std::min(rank->omp_threads, places_.Threads(place));
      for (const size_t core : place.cores) in[core] = true;
      mapped_memory = Union(mapped_memory, place.mapped_memory);
      mapped_cpus = Union(mapped_cpus, place.mapped_cpus);
      for (const VisibleGpu& visible : gpus_.of_ranks()[k]) {
        const bool known = std::any_of(gpus.begin(), gpus.end(), [&](const VisibleGpu& other) {
          return other.name == visible.name;
        });
        if (!known) gpus.push_back(visible);
      }
    }
    for (const VisibleGpu& visible : gpus) {
      if (visible.gpu >= 0) rank->gpus.push_back(visible.gpu);
    }
    rank->has_gpu = !gpus.empty();
    rank->isolated = gpus_.VariablesFor(gpus);
    IndexList nodes;
    for (size_t core = 0; core < cores.size(); ++core) {
      if (!in[core]) continue;
      rank->cpus.insert(rank->cpus.end(), cores[core].cpus.begin(), cores[core].cpus.end());
      const int node = cores[core].numa_node;
      if (node >= 0 && (nodes.empty() || nodes.back() != node)) nodes.push_back(node);
    }
    std::sort(rank->cpus.begin(), rank->cpus.end());
    // A map may name one of a core's two CPUs.
    if (const IndexList exact = Intersect(rank->cpus, mapped_cpus); !exact.empty()) {
      rank->cpus = exact;
    }
    if (nodes.size() == 1) rank->numa_node = nodes.front();
    if (!rank->cpus.empty()) PlanMemory(mapped_memory.empty() ? nodes : mapped_memory, rank);
    rank->nics = NearestNics(machine_, rank->gpus, nodes);
    return binding;
  }

  void PlanMemory(IndexList nodes, RankBinding* rank) const {
    const MemoryPolicy asked =
        request_.mode == Bind::kInterleave ? MemoryPolicy::kInterleave : request_.memory;
    if (asked == MemoryPolicy::kNone) return;
    if (nodes.empty()) {
      return AddReason("NUMA nodes are unknown: memory by first touch", &rank->reason);
    }
    if (!machine_.allowed_mems.empty()) {
      const IndexList allowed = Intersect(nodes, machine_.allowed_mems);
      if (allowed.empty()) {
        return AddReason("this container gets no memory from NUMA node " + FormatIndexList(nodes) +
                             " (cpuset.mems " + FormatIndexList(machine_.allowed_mems) + ")",
                         &rank->reason);
      }
      nodes = allowed;
    }
    // With one node in the cpuset, no memory policy is needed.
    if (machine_.allowed_mems == nodes && nodes.size() == 1) return;
    // "Preferred" of several nodes is first touch among them, which their CPUs do anyway; and one
    // node alone is nothing to take turns with.
    if (asked == MemoryPolicy::kPreferred && nodes.size() > 1) return;
    rank->memory =
        asked == MemoryPolicy::kInterleave && nodes.size() == 1 ? MemoryPolicy::kPreferred : asked;
    rank->memory_nodes = nodes;
  }

  void Judge(BindingPlan* plan) const {
    if (request_.policy != core::TopologyPolicy::kRequired) return;
    for (const RankBinding& rank : plan->ranks) {
      if (rank.reason.empty()) continue;
      plan->error = "local rank " + std::to_string(rank.local_rank) + ": " + rank.reason;
      return;
    }
  }

  const Machine& machine_;
  const BindingRequest& request_;
  const GpuShares gpus_;
  const CorePlaces places_;
};

// As the processes will have it. What comes of another object is in a pod's environment already.
std::optional<std::string> ValueOf(const core::Spec& spec,
                                   const std::vector<std::string>& environment,
                                   std::string_view name) {
  const auto own = std::ranges::find(spec.env, name, &core::EnvVar::name);
  if (own != spec.env.end() && own->value_from.IsNull()) return own->value;
  for (const std::string& entry : environment) {
    if (!entry.starts_with(name) || entry.substr(name.size(), 1) != "=") continue;
    return entry.substr(name.size() + 1);
  }
  return std::nullopt;
}

// A job that asks for no GPUs may still use those that it finds; one that computes on CPUs does
// not.
bool ComputesOnCpus(const core::Spec& spec, const std::vector<std::string>& environment) {
  if (spec.trainer && spec.trainer->device == core::Device::kCpu) return true;
  const std::string accelerate = ValueOf(spec, environment, "ACCELERATE_USE_CPU").value_or("false");
  return accelerate == "true" || accelerate == "True" || accelerate == "1" ||
         ValueOf(spec, environment, "JAX_PLATFORMS") == "cpu";
}

}  // namespace

BindingRequest RequestOf(const core::Spec& spec, const std::vector<std::string>& environment) {
  BindingRequest request;
  request.mode = spec.topology.bind;
  request.memory = spec.topology.memory_policy;
  request.policy = spec.topology.policy;
  request.processes = spec.processes_per_machine;
  request.launcher = core::LaunchOf(spec) == core::Launch::kPerMachine;
  request.gpus = spec.resources_per_process.gpu;
  if (!request.gpus && ComputesOnCpus(spec, environment)) request.gpus = 0;
  request.visibility = spec.topology.gpu_visibility;
  request.gpu_resource = spec.resources_per_process.gpu_resource;
  request.map = spec.topology.map;
  for (const std::string_view name : {kCudaVisible, kRocrVisible, kHipVisible}) {
    if (std::optional<std::string> value = ValueOf(spec, environment, name)) {
      request.variables.emplace_back(name, std::move(*value));
    }
  }
  return request;
}

BindingPlan PlanBinding(const Machine& machine, const BindingRequest& request) {
  assert(request.part >= 0 && request.part < request.parts);
  const Planner planner(machine, request);
  return planner.PlanPart(request.part);
}

std::vector<BindingPlan> PlanComputer(const Machine& machine, const BindingRequest& request) {
  const Planner planner(machine, request);
  std::vector<BindingPlan> plans;
  for (int part = 0; part < request.parts; ++part) plans.push_back(planner.PlanPart(part));
  return plans;
}

}  // namespace lockstep::topology
