// Machines for tests of the planner: MakeMachine().Node(0, 16).Node(1, 16).Gpu(0).Gpu(1).
#ifndef LOCKSTEP_TESTS_WORKER_TOPOLOGY_MACHINE_BUILDER_H_
#define LOCKSTEP_TESTS_WORKER_TOPOLOGY_MACHINE_BUILDER_H_

#include <string>
#include <utility>
#include <vector>

#include "worker/topology/plan/binding_plan.h"
#include "worker/topology/topology.h"

namespace lockstep::topology {

class MakeMachine {
 public:
  // CPUs per core, for the nodes added after it. Siblings have neighbouring numbers.
  MakeMachine& Smt(int threads) {
    threads_ = threads;
    return *this;
  }
  MakeMachine& Node(int id, int cores) {
    NumaNode node;
    node.id = id;
    for (int c = 0; c < cores; ++c) {
      Core core{{}, id};
      for (int t = 0; t < threads_; ++t) core.cpus.push_back(next_cpu_++);
      node.cpus.insert(node.cpus.end(), core.cpus.begin(), core.cpus.end());
      machine_.cores.push_back(core);
    }
    machine_.numa_nodes.push_back(node);
    machine_.allowed_cpus = Union(machine_.allowed_cpus, node.cpus);
    machine_.allowed_mems = Union(machine_.allowed_mems, {id});
    return *this;
  }
  MakeMachine& Gpu(int numa_node) {
    topology::Gpu gpu;
    gpu.pci_address = "0000:" + std::to_string(10 + machine_.gpus.size()) + ":00.0";
    gpu.numa_node = numa_node;
    machine_.gpus.push_back(gpu);
    return *this;
  }
  MakeMachine& AmdGpu(int numa_node) {
    Gpu(numa_node);
    machine_.gpus.back().vendor = GpuVendor::kAmd;
    return *this;
  }
  MakeMachine& Uuid(const std::string& uuid) {
    machine_.gpus.back().uuid = uuid;
    return *this;
  }
  MakeMachine& Nic(const std::string& name, int numa_node, const std::string& pci_path = "") {
    topology::Nic nic;
    nic.name = name;
    nic.rdma = nic.up = true;
    nic.numa_node = numa_node;
    nic.pci_path = pci_path;
    machine_.nics.push_back(nic);
    return *this;
  }
  MakeMachine& GpuPath(const std::string& path) {
    machine_.gpus.back().pci_path = path;
    return *this;
  }
  // All nodes added since the last call.
  MakeMachine& Package() {
    topology::Package package;
    package.id = static_cast<int>(machine_.packages.size());
    for (NumaNode& node : machine_.numa_nodes) {
      if (node.package >= 0) continue;
      node.package = package.id;
      package.cpus = Union(package.cpus, node.cpus);
    }
    machine_.packages.push_back(package);
    return *this;
  }
  MakeMachine& Cache(IndexList cpus) {
    machine_.caches.push_back({std::move(cpus), 32 << 20, 3});
    return *this;
  }
  // Memory without CPUs; `distances` to the nodes with.
  MakeMachine& MemoryNode(int id, std::vector<int> distances) {
    NumaNode node;
    node.id = id;
    node.distances = std::move(distances);
    machine_.memory_nodes.push_back(node);
    machine_.allowed_mems = Union(machine_.allowed_mems, {id});
    return *this;
  }
  // One row a node, in order.
  MakeMachine& Distances(const std::vector<std::vector<int>>& rows) {
    for (size_t i = 0; i < rows.size(); ++i) machine_.numa_nodes.at(i).distances = rows[i];
    return *this;
  }
  MakeMachine& AllowedCpus(IndexList cpus) {
    machine_.allowed_cpus = std::move(cpus);
    return *this;
  }
  MakeMachine& AllowedMems(IndexList mems) {
    machine_.allowed_mems = std::move(mems);
    return *this;
  }
  MakeMachine& Quota(double cpus) {
    machine_.cpu_quota = cpus;
    return *this;
  }
  operator Machine() const { return machine_; }  // NOLINT(google-explicit-constructor)

 private:
  Machine machine_;
  int threads_ = 1;
  int next_cpu_ = 0;
};

// The CPUs of each rank: "0-3 | 4-7".
inline std::string Cpus(const BindingPlan& plan) {
  std::string text;
  for (const RankBinding& rank : plan.ranks) {
    text += (text.empty() ? "" : " | ") + FormatIndexList(rank.cpus);
  }
  return text;
}

}  // namespace lockstep::topology

#endif  // LOCKSTEP_TESTS_WORKER_TOPOLOGY_MACHINE_BUILDER_H_
