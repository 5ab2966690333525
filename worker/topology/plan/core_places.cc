#include "worker/topology/plan/core_places.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "worker/topology/plan/core_split.h"
#include "worker/topology/plan/plan_text.h"

namespace lockstep::topology {

CorePlaces::CorePlaces(const Machine& machine, const BindingRequest& request,
                       const std::vector<std::vector<VisibleGpu>>& gpus)
    : machine_(machine),
      request_(request),
      gpus_(gpus),
      cores_(AllowedCores(machine)),
      places_(gpus.size()) {
  for (size_t i = 0; i < cores_.size(); ++i) cores_of_[cores_[i].numa_node].push_back(i);
  if (request_.mode != Bind::kNone) Place();
  CountRanks();
}

void CorePlaces::Place() {
  if (cores_.empty()) {
    for (CorePlace& place : places_)
      AddReason("the machine names no CPU to bind to", &place.reason);
    return;
  }
  shares_ = SplitCores(cores_, static_cast<int>(places_.size()));
  for (size_t k = 0; k < places_.size(); ++k) {
    CorePlace& place = places_[k];
    if (request_.mode == Bind::kMap) {
      PlaceByMap(request_.map[k % static_cast<size_t>(request_.processes)], k, &place);
    } else if (request_.mode == Bind::kInterleave) {
      place.cores = AllCores();
    } else {
      place.nodes = NodesOfGpus(k, &place);
      if (place.nodes.empty())
        place.nodes = NodesOf(shares_[k]);
      else
        place.cores = CoresOf(place.nodes);
      if (place.cores.empty()) place.cores = Indices(shares_[k]);
    }
  }
  if (request_.mode == Bind::kSocket) WidenToSockets();
  if (request_.mode == Bind::kCoreComplex) NarrowToCaches();
  if (request_.mode == Bind::kExclusive) MakeExclusive();
  if (places_.size() <= cores_.size() || request_.mode == Bind::kInterleave) return;
  for (CorePlace& place : places_) {
    AddReason(
        std::to_string(places_.size()) + " processes share " + CountText(cores_.size(), "core"),
        &place.reason);
  }
}

// The NUMA nodes whose cores suit the rank's GPUs; empty where that can't be said.
IndexList CorePlaces::NodesOfGpus(size_t k, CorePlace* place) const {
  IndexList nodes;
  for (const VisibleGpu& visible : gpus_[k]) {
    if (const std::optional<int> node = OnlyNode()) return {*node};
    if (visible.gpu < 0) {
      AddReason("which GPU " + visible.name + " means is not known here", &place->reason);
      continue;
    }
    const std::optional<int> node =
        NodeOfGpu(machine_.gpus[static_cast<size_t>(visible.gpu)], &place->reason);
    if (node) nodes = Union(nodes, {*node});
  }
  return nodes;
}

// Where there is no other, nothing can be far from it.
std::optional<int> CorePlaces::OnlyNode() const {
  if (machine_.numa_nodes.size() != 1) return std::nullopt;
  const int node = machine_.numa_nodes.front().id;
  return cores_of_.contains(node) ? std::optional(node) : std::nullopt;
}

std::optional<int> CorePlaces::NodeOfGpu(const Gpu& gpu, std::string* reason) const {
  const std::string name = "GPU " + gpu.pci_address;
  if (gpu.numa_node < 0) {
    AddReason("the machine does not show on which NUMA node " + name + " is (numa_node=-1)",
              reason);
    return std::nullopt;
  }
  int node = gpu.numa_node;
  // A GPU may be said to be on a node of its own memory: the CPUs next to that are its.
  for (const NumaNode& memory : machine_.memory_nodes) {
    if (memory.id != node) continue;
    if (const std::optional<int> next = Nearest(memory, /*open=*/false)) node = *next;
    break;
  }
  if (cores_of_.contains(node)) return node;
  const int at = machine_.FindNumaNode(node);
  const std::optional<int> nearest =
      at < 0 ? std::nullopt : Nearest(machine_.numa_nodes[static_cast<size_t>(at)], /*open=*/true);
  AddReason(
      name + " is on NUMA node " + std::to_string(node) +
          ", of which this container may use no CPU" +
          (nearest ? ": bound to NUMA node " + std::to_string(*nearest) + ", the nearest" : ""),
      reason);
  return nearest;
}

// The node with CPUs that is nearest; `open`: with CPUs that may be used. None where distances
// are unknown.
std::optional<int> CorePlaces::Nearest(const NumaNode& from, bool open) const {
  std::optional<int> nearest;
  int shortest = std::numeric_limits<int>::max();
  for (size_t i = 0; i < from.distances.size() && i < machine_.numa_nodes.size(); ++i) {
    const int id = machine_.numa_nodes[i].id;
    if (from.distances[i] >= shortest || (open && !cores_of_.contains(id))) continue;
    shortest = from.distances[i];
    nearest = id;
  }
  return nearest;
}

void CorePlaces::WidenToSockets() {
  constexpr size_t kNone = std::numeric_limits<size_t>::max();
  std::vector<size_t> package_of(cores_.size(), kNone);
  for (size_t package = 0; package < machine_.packages.size(); ++package) {
    for (const size_t core : CoresWithin(machine_.packages[package].cpus)) {
      package_of[core] = package;
    }
  }
  for (CorePlace& place : places_) {
    if (machine_.packages.empty()) {
      AddReason("sockets are unknown here: bound as Node", &place.reason);
      continue;
    }
    std::vector<bool> wanted(machine_.packages.size(), false);
    std::vector<bool> in(cores_.size(), false);
    for (const size_t core : place.cores) {
      in[core] = true;
      if (package_of[core] != kNone) wanted[package_of[core]] = true;
    }
    place.cores.clear();
    for (size_t core = 0; core < cores_.size(); ++core) {
      const bool beside = package_of[core] != kNone && wanted[package_of[core]];
      if (in[core] || beside) place.cores.push_back(core);
    }
  }
}

// Ranks of the same nodes are dealt out to the caches of those, the largest first.
void CorePlaces::NarrowToCaches() {
  std::map<IndexList, std::vector<std::vector<size_t>>> caches;
  std::map<IndexList, size_t> dealt;
  for (CorePlace& place : places_) {
    auto [found, is_new] = caches.try_emplace(place.nodes);
    if (is_new) found->second = CachesOf(place.nodes);
    if (found->second.empty()) {
      AddReason("last-level caches are unknown here: bound as Node", &place.reason);
      continue;
    }
    place.cores = found->second[dealt[place.nodes]++ % found->second.size()];
  }
}

std::vector<std::vector<size_t>> CorePlaces::CachesOf(const IndexList& nodes) const {
  const std::vector<size_t> base = CoresOf(nodes);
  std::vector<std::vector<size_t>> groups;
  for (const CacheGroup& cache : machine_.caches) {
    std::vector<size_t> group;
    std::copy_if(base.begin(), base.end(), std::back_inserter(group),
                 [&](size_t core) { return Contains(cache.cpus, cores_[core].cpus.front()); });
    if (!group.empty()) groups.push_back(std::move(group));
  }
  std::sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) {
    return a.size() != b.size() ? a.size() > b.size() : a.front() < b.front();
  });
  return groups;
}

// Each node's cores are cut between the ranks that are bound to it.
void CorePlaces::MakeExclusive() {
  std::map<int, std::vector<CorePlace*>> ranks_of;
  for (CorePlace& place : places_) {
    place.cores.clear();
    for (const int node : place.nodes) ranks_of[node].push_back(&place);
  }
  for (const auto& [node, ranks] : ranks_of) {
    const std::vector<size_t>& cores = cores_of_.at(node);
    for (size_t i = 0; i < ranks.size(); ++i) {
      const size_t from = i * cores.size() / ranks.size();
      const size_t to = std::max(from + 1, (i + 1) * cores.size() / ranks.size());
      for (size_t core = from; core < to; ++core) ranks[i]->cores.push_back(cores[core]);
      if (ranks.size() <= cores.size() || places_.size() > cores_.size()) continue;
      AddReason(std::to_string(ranks.size()) + " processes share " +
                    CountText(cores.size(), "core") + " of NUMA node " + std::to_string(node),
                &ranks[i]->reason);
    }
  }
  for (CorePlace& place : places_) std::sort(place.cores.begin(), place.cores.end());
}

void CorePlaces::PlaceByMap(const core::MappedProcess& mapped, size_t k, CorePlace* place) const {
  // Validate has seen the lists.
  const Result<IndexList> cpus = ParseIndexList(mapped.cpus);
  const IndexList asked = cpus.ok() ? *cpus : IndexList{};
  place->cores = CoresWithin(asked);
  place->mapped_cpus = asked;
  const IndexList had = Intersect(asked, machine_.allowed_cpus);
  if (had != asked) {
    AddReason("its map names CPUs " + FormatIndexList(asked) +
                  ", of which this container may use " +
                  (had.empty() ? "none" : FormatIndexList(had)),
              &place->reason);
  }
  if (place->cores.empty()) place->cores = Indices(shares_[k]);
  if (const Result<IndexList> memory = ParseIndexList(mapped.memory); memory.ok()) {
    place->mapped_memory = *memory;
  }
}

void CorePlaces::CountRanks() {
  ranks_on_core_.assign(cores_.size(), 0);
  for (const CorePlace& place : places_) {
    for (const size_t core : place.cores) ++ranks_on_core_[core];
  }
}

int CorePlaces::Threads(const CorePlace& place) const {
  const auto ranks = static_cast<double>(places_.size());
  double share = place.cores.empty() ? static_cast<double>(cores_.size()) / ranks : 0;
  for (const size_t core : place.cores) share += 1.0 / static_cast<double>(ranks_on_core_[core]);
  if (machine_.cpu_quota > 0) share = std::min(share, machine_.cpu_quota / ranks);
  constexpr double kRounding = 1e-9;
  return std::max(1, static_cast<int>(share + kRounding));
}

// ---- cores ----

IndexList CorePlaces::NodesOf(const std::vector<Core>& cores) {
  IndexList nodes;
  for (const Core& core : cores) {  // which stand node by node
    if (nodes.empty() || nodes.back() != core.numa_node) nodes.push_back(core.numa_node);
  }
  return nodes;
}
std::vector<size_t> CorePlaces::CoresOf(const IndexList& nodes) const {
  std::vector<size_t> cores;
  for (const int node : nodes) {
    const std::vector<size_t>& some = cores_of_.at(node);
    cores.insert(cores.end(), some.begin(), some.end());
  }
  return cores;
}
std::vector<size_t> CorePlaces::CoresWithin(const IndexList& cpus) const {
  std::vector<size_t> cores;
  for (size_t i = 0; i < cores_.size(); ++i) {
    const IndexList& own = cores_[i].cpus;
    if (std::any_of(own.begin(), own.end(), [&](int cpu) { return Contains(cpus, cpu); })) {
      cores.push_back(i);
    }
  }
  return cores;
}
std::vector<size_t> CorePlaces::AllCores() const {
  std::vector<size_t> cores(cores_.size());
  for (size_t i = 0; i < cores.size(); ++i) cores[i] = i;
  return cores;
}
std::vector<size_t> CorePlaces::Indices(const std::vector<Core>& share) const {
  std::vector<size_t> indices;
  for (size_t i = 0; i < cores_.size(); ++i) {
    if (cores_[i].cpus == share[indices.size()].cpus) indices.push_back(i);
    if (indices.size() == share.size()) break;
  }
  return indices;
}

}  // namespace lockstep::topology
