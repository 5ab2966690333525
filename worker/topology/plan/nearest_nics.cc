#include "worker/topology/plan/nearest_nics.h"

#include <algorithm>

#include "worker/topology/pci_path.h"

namespace lockstep::topology {

std::vector<std::string> NearestNics(const Machine& machine, const std::vector<int>& gpus,
                                     const IndexList& nodes) {
  const bool rdma = std::any_of(machine.nics.begin(), machine.nics.end(),
                                [](const Nic& nic) { return nic.rdma && nic.up; });
  std::vector<bool> near(machine.nics.size(), false);
  const auto mark = [&](const auto& distance) {
    size_t best = 0;
    for (const Nic& nic : machine.nics) {
      if (nic.up && nic.rdma == rdma) best = std::max(best, distance(nic));
    }
    for (size_t i = 0; best > 0 && i < machine.nics.size(); ++i) {
      const Nic& nic = machine.nics[i];
      if (nic.up && nic.rdma == rdma && distance(nic) == best) near[i] = true;
    }
  };
  for (const int gpu : gpus) {
    const Gpu& own = machine.gpus[static_cast<size_t>(gpu)];
    mark([&](const Nic& nic) -> size_t {
      const size_t common = CommonPath(own.pci_path, nic.pci_path);
      if (common > 0) return 1 + common;
      return own.numa_node >= 0 && own.numa_node == nic.numa_node ? 1 : 0;
    });
  }
  if (gpus.empty()) {
    mark([&](const Nic& nic) -> size_t {
      return nic.numa_node >= 0 && Contains(nodes, nic.numa_node) ? 1 : 0;
    });
  }
  std::vector<std::string> names;
  for (size_t i = 0; i < near.size(); ++i) {
    if (near[i]) names.push_back(machine.nics[i].name);
  }
  return names;
}

}  // namespace lockstep::topology
