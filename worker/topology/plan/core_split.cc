#include "worker/topology/plan/core_split.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <utility>

namespace lockstep::topology {
namespace {

// The cores of one NUMA node.
using Node = std::vector<Core>;

std::vector<Node> GroupByNode(const std::vector<Core>& cores) {
  std::vector<Node> nodes;
  for (const Core& core : cores) {
    if (nodes.empty() || nodes.back().back().numa_node != core.numa_node) nodes.emplace_back();
    nodes.back().push_back(core);
  }
  return nodes;
}

// How many processes each node takes: one after the other, each to the node where it will have the
// most cores.
std::vector<size_t> Apportion(const std::vector<Node>& nodes, size_t processes) {
  std::vector<size_t> taken(nodes.size(), 0);
  for (size_t process = 0; process < processes; ++process) {
    size_t best = 0;
    for (size_t i = 1; i < nodes.size(); ++i) {
      // nodes[i].size() / (taken[i] + 1) > nodes[best].size() / (taken[best] + 1)
      if (nodes[i].size() * (taken[best] + 1) > nodes[best].size() * (taken[i] + 1)) best = i;
    }
    ++taken[best];
  }
  return taken;
}

// The i-th of n cuts of `items`; at least one item, so that cuts overlap when n > items.size().
template <typename T>
std::vector<T> Cut(const std::vector<T>& items, size_t i, size_t n) {
  const size_t first = i * items.size() / n;
  const size_t last = std::max(first + 1, (i + 1) * items.size() / n);
  return std::vector<T>(items.begin() + static_cast<std::ptrdiff_t>(first),
                        items.begin() + static_cast<std::ptrdiff_t>(last));
}

std::vector<Core> Flatten(const std::vector<Node>& nodes) {
  std::vector<Core> cores;
  for (const Node& node : nodes) cores.insert(cores.end(), node.begin(), node.end());
  return cores;
}

}  // namespace

std::vector<Core> AllowedCores(const Machine& machine) {
  std::vector<Core> cores;
  IndexList covered;
  for (const Core& core : machine.cores) {
    Core allowed{{}, core.numa_node};
    std::copy_if(core.cpus.begin(), core.cpus.end(), std::back_inserter(allowed.cpus),
                 [&](int cpu) { return Contains(machine.allowed_cpus, cpu); });
    if (allowed.cpus.empty()) continue;
    covered.insert(covered.end(), allowed.cpus.begin(), allowed.cpus.end());
    cores.push_back(std::move(allowed));
  }
  std::sort(covered.begin(), covered.end());
  for (const int cpu : machine.allowed_cpus) {
    if (!Contains(covered, cpu)) cores.push_back({{cpu}, -1});
  }
  std::sort(cores.begin(), cores.end(), [](const Core& a, const Core& b) {
    return std::pair(a.numa_node, a.cpus.front()) < std::pair(b.numa_node, b.cpus.front());
  });
  return cores;
}

std::vector<std::vector<Core>> SplitCores(const std::vector<Core>& cores, int processes) {
  assert(!cores.empty() && processes >= 1);
  const auto count = static_cast<size_t>(processes);
  const std::vector<Node> nodes = GroupByNode(cores);
  std::vector<std::vector<Core>> shares;
  if (count < nodes.size()) {
    for (size_t i = 0; i < count; ++i) shares.push_back(Flatten(Cut(nodes, i, count)));
    return shares;
  }
  const std::vector<size_t> taken = Apportion(nodes, count);
  for (size_t node = 0; node < nodes.size(); ++node) {
    for (size_t i = 0; i < taken[node]; ++i) shares.push_back(Cut(nodes[node], i, taken[node]));
  }
  return shares;
}

}  // namespace lockstep::topology
