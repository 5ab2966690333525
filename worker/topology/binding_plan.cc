#include "worker/topology/binding_plan.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <limits>
#include <map>
#include <optional>

#include "worker/topology/core_split.h"

namespace lockstep::topology {
namespace {

void AddReason(const std::string& reason, RankBinding* rank) {
  if (!rank->reason.empty()) rank->reason += "; ";
  rank->reason += reason;
}

std::vector<Core> CoresOfNode(const std::vector<Core>& cores, int numa_node) {
  std::vector<Core> found;
  std::copy_if(cores.begin(), cores.end(), std::back_inserter(found),
               [&](const Core& core) { return core.numa_node == numa_node; });
  return found;
}

// The node nearest to `numa_node` that has allowed cores; none where distances are unknown.
std::optional<int> NearestNode(const Machine& machine, const std::vector<Core>& cores,
                               int numa_node) {
  const int from = machine.FindNumaNode(numa_node);
  if (from < 0) return std::nullopt;
  const std::vector<int>& distances = machine.numa_nodes[static_cast<size_t>(from)].distances;
  std::optional<int> nearest;
  int shortest = std::numeric_limits<int>::max();
  for (size_t i = 0; i < distances.size(); ++i) {
    const int id = machine.numa_nodes[i].id;
    if (distances[i] >= shortest || CoresOfNode(cores, id).empty()) continue;
    shortest = distances[i];
    nearest = id;
  }
  return nearest;
}

// The NUMA node whose cores suit the rank's GPU; none where that can't be said.
std::optional<int> NodeOfGpu(const Machine& machine, const std::vector<Core>& cores,
                             RankBinding* rank) {
  const Gpu& gpu = machine.gpus[static_cast<size_t>(rank->gpus.front())];
  const std::string name = "GPU " + gpu.pci_address;
  if (gpu.numa_node < 0) {
    AddReason("the machine does not say on which NUMA node " + name + " is (numa_node=-1)", rank);
    return std::nullopt;
  }
  if (!CoresOfNode(cores, gpu.numa_node).empty()) return gpu.numa_node;
  const std::optional<int> nearest = NearestNode(machine, cores, gpu.numa_node);
  AddReason(
      name + " is on NUMA node " + std::to_string(gpu.numa_node) +
          ", of which this container may use no CPU" +
          (nearest ? ": bound to NUMA node " + std::to_string(*nearest) + ", the nearest" : ""),
      rank);
  return nearest;
}

// The known nodes that cores are on.
IndexList NodesOf(const std::vector<Core>& cores) {
  IndexList nodes;
  for (const Core& core : cores) {
    if (core.numa_node >= 0) nodes = Union(nodes, {core.numa_node});
  }
  return nodes;
}

void PlanMemory(const Machine& machine, MemoryPolicy asked, const std::vector<Core>& cores,
                RankBinding* rank) {
  if (asked == MemoryPolicy::kNone) return;
  IndexList nodes = NodesOf(cores);
  if (nodes.empty()) return AddReason("NUMA nodes are unknown: memory by first touch", rank);
  if (!machine.allowed_mems.empty()) {
    const IndexList allowed = Intersect(nodes, machine.allowed_mems);
    if (allowed.empty()) {
      return AddReason("this container gets no memory from NUMA node " + FormatIndexList(nodes) +
                           " (cpuset.mems " + FormatIndexList(machine.allowed_mems) + ")",
                       rank);
    }
    nodes = allowed;
  }
  // With one node in the cpuset, no memory policy is needed.
  if (machine.allowed_mems == nodes && nodes.size() == 1) return;
  // "Preferred" of several nodes is first touch among them, which their CPUs do anyway.
  if (asked == MemoryPolicy::kPreferred && nodes.size() > 1) return;
  rank->memory = asked;
  rank->memory_nodes = nodes;
}

void BindTo(const Machine& machine, MemoryPolicy memory, const std::vector<Core>& cores,
            RankBinding* rank) {
  rank->cpus = CpusOf(cores);
  const IndexList nodes = NodesOf(cores);
  if (nodes.size() == 1) rank->numa_node = nodes.front();
  if (nodes.size() > 1) {
    AddReason("fewer processes than NUMA nodes: its CPUs are on nodes " + FormatIndexList(nodes),
              rank);
  }
  PlanMemory(machine, memory, cores, rank);
}

// Threads for each rank: the cores it has, divided by the ranks it shares them with, and no more
// than its part of the CPU quota.
void PlanThreads(const Machine& machine, const std::vector<Core>& cores, BindingPlan* plan) {
  std::map<int, size_t> ranks_on_cpu;
  for (const RankBinding& rank : plan->ranks) {
    for (const int cpu : rank.cpus) ++ranks_on_cpu[cpu];
  }
  const size_t processes = plan->ranks.size();
  for (RankBinding& rank : plan->ranks) {
    double share = 0;
    for (const Core& core : cores) {
      if (rank.cpus.empty()) {
        share += 1.0 / static_cast<double>(processes);
      } else if (Contains(rank.cpus, core.cpus.front())) {
        share += 1.0 / static_cast<double>(ranks_on_cpu[core.cpus.front()]);
      }
    }
    if (machine.cpu_quota > 0) {
      share = std::min(share, machine.cpu_quota / static_cast<double>(processes));
    }
    constexpr double kRounding = 1e-9;
    rank.omp_threads = std::max(1, static_cast<int>(share + kRounding));
  }
}

}  // namespace

BindingRequest RequestOf(const core::Spec& spec, const std::vector<std::string>& environment) {
  BindingRequest request;
  request.mode = spec.topology.bind;
  request.memory = spec.topology.memory_policy;
  request.policy = spec.topology.policy;
  request.processes = spec.processes_per_machine;
  request.launcher = spec.launch == core::Launch::kPerMachine;
  request.gpus = spec.resources_per_process.gpu;
  request.map = spec.topology.map;
  constexpr std::array<std::string_view, 3> kNames = {
      "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"};
  for (const std::string_view name : kNames) {
    const auto own =
        std::find_if(spec.env.begin(), spec.env.end(),
                     [&](const core::EnvVar& variable) { return variable.name == name; });
    if (own != spec.env.end()) {
      request.variables.emplace_back(name, own->value);
      continue;
    }
    for (const std::string& entry : environment) {
      if (!entry.starts_with(name) || entry.substr(name.size(), 1) != "=") continue;
      request.variables.emplace_back(name, entry.substr(name.size() + 1));
      break;
    }
  }
  return request;
}

BindingPlan PlanBinding(const Machine& machine, const BindingRequest& request) {
  const Bind mode = request.mode;
  const MemoryPolicy memory = request.memory;
  const int processes = request.launcher ? 1 : request.processes;
  assert(processes >= 1);
  const std::vector<Core> cores = AllowedCores(machine);
  const bool bind = mode == Bind::kNode && !cores.empty();
  std::vector<std::vector<Core>> shares;
  if (bind) shares = SplitCores(cores, processes);

  BindingPlan plan;
  plan.mode = mode;
  plan.memory = memory;
  for (int local_rank = 0; local_rank < processes; ++local_rank) {
    RankBinding rank;
    rank.local_rank = local_rank;
    std::optional<int> gpu_node;
    if (!machine.gpus.empty()) {
      rank.gpus = {local_rank % static_cast<int>(machine.gpus.size())};
      if (bind) gpu_node = NodeOfGpu(machine, cores, &rank);
    }
    if (bind) {
      const std::vector<Core>& share = shares[static_cast<size_t>(local_rank)];
      BindTo(machine, memory, gpu_node ? CoresOfNode(cores, *gpu_node) : share, &rank);
      if (static_cast<size_t>(processes) > cores.size()) {
        AddReason(std::to_string(processes) + " processes share " + std::to_string(cores.size()) +
                      (cores.size() == 1 ? " core" : " cores"),
                  &rank);
      }
    } else if (mode == Bind::kNode) {
      rank.reason = "the machine names no CPU to bind to";
    }
    plan.ranks.push_back(std::move(rank));
  }
  PlanThreads(machine, cores, &plan);
  return plan;
}

}  // namespace lockstep::topology
