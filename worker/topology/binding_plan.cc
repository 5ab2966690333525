#include "worker/topology/binding_plan.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <map>
#include <span>
#include <utility>

#include "worker/topology/core_split.h"
#include "worker/topology/gpu_choice.h"
#include "worker/topology/pci_path.h"

namespace lockstep::topology {
namespace {

void Add(const std::string& text, std::string* to) {
  if (text.empty() || to->find(text) != std::string::npos) return;
  *to += (to->empty() ? "" : "; ") + text;
}

std::string Count(size_t number, const std::string& what) {
  return std::to_string(number) + " " + what + (number == 1 ? "" : "s");
}

// One rank of the computer while its machines are planned; a machine's are a slice of them.
struct Draft {
  std::vector<VisibleGpu> gpus;
  IndexList nodes;            // that it is bound to, -1 for cores of no known node
  std::vector<size_t> cores;  // indices into Planner::cores_, ascending
  IndexList mapped_cpus;      // the map's own; empty: all of the cores
  IndexList mapped_memory;    // the map's own; empty: the nodes of the cores
  std::string reason;
};

class Planner {
 public:
  Planner(const Machine& machine, const BindingRequest& request)
      : machine_(machine),
        request_(request),
        cores_(AllowedCores(machine)),
        choice_(ChooseGpus(machine.gpus, request.variables)),
        drafts_(static_cast<size_t>(request.processes) * static_cast<size_t>(request.parts)) {
    assert(request.processes >= 1);
    assert(request.mode != Bind::kMap ||
           request.map.size() == static_cast<size_t>(request.processes));
    for (size_t i = 0; i < cores_.size(); ++i) cores_of_[cores_[i].numa_node].push_back(i);
  }

  void Prepare() {
    AssignGpus();
    if (request_.mode != Bind::kNone) Place();
    CountRanks();
  }

  // Of one of the computer's machines.
  BindingPlan PlanPart(int part) const {
    BindingPlan plan;
    plan.mode = request_.mode;
    plan.memory = request_.memory;
    plan.notes = notes_;
    const auto processes = static_cast<size_t>(request_.processes);
    const std::span<const Draft> own =
        std::span(drafts_).subspan(static_cast<size_t>(part) * processes, processes);
    if (split_) {
      plan.visible = Show(PartOf(static_cast<size_t>(part)));
    }
    if (request_.launcher) {
      plan.ranks.push_back(Finish(own, 0));
    } else {
      for (size_t l = 0; l < processes; ++l) {
        plan.ranks.push_back(Finish(own.subspan(l, 1), static_cast<int>(l)));
      }
    }
    Judge(&plan);
    return plan;
  }

 private:
  // ---- GPUs ----

  void AssignGpus() {
    const auto processes = static_cast<size_t>(request_.processes);
    const size_t each = Each();
    Note(choice_.problem);
    if (request_.gpus == 0) return;
    const size_t wanted = drafts_.size() * std::max<size_t>(each, 1);
    if (choice_.visible.empty()) {
      if (each > 0) Note("the job asks for GPUs, and none is seen here");
      return;
    }
    // A process that sees all of a machine's GPUs takes number LOCAL_RANK: there must be so many.
    const bool isolated =
        request_.visibility == core::GpuVisibility::kIsolated && !request_.launcher;
    const auto parts = static_cast<size_t>(request_.parts);
    split_ = parts > 1 && choice_.visible.size() >= (isolated ? parts : wanted);
    if (choice_.visible.size() < wanted) Shortage(wanted);
    for (size_t k = 0; k < drafts_.size(); ++k) {
      const std::span<const VisibleGpu> own = PartOf(k / processes);
      const size_t count = each > 0 ? std::min(each, own.size()) : processes == 1 ? own.size() : 1;
      for (size_t i = 0; i < count; ++i) {
        const size_t first = k % processes * std::max<size_t>(each, 1);
        drafts_[k].gpus.push_back(own[(first + i) % own.size()]);
      }
    }
  }

  size_t Each() const { return static_cast<size_t>(request_.gpus.value_or(0)); }

  // A machine's part of the GPUs; all of them where they can't be shared out.
  std::span<const VisibleGpu> PartOf(size_t part) const {
    const std::span<const VisibleGpu> all(choice_.visible);
    if (!split_) return all;
    const size_t own = static_cast<size_t>(request_.processes) * Each();
    const auto parts = static_cast<size_t>(request_.parts);
    if (own > 0 && own * parts <= all.size()) return all.subspan(part * own, own);
    const size_t from = part * all.size() / parts;
    return all.subspan(from, (part + 1) * all.size() / parts - from);
  }

  void Shortage(size_t wanted) {
    if (Slices() || request_.gpu_resource.ends_with(".shared")) return;  // parts were asked for
    const std::string have = std::to_string(choice_.visible.size());
    if (Each() == 0) {
      return Note(std::to_string(wanted) + " processes have " +
                  Count(choice_.visible.size(), "GPU") + " here: too few for one each");
    }
    Note(request_.parts > 1
             ? "the job's " + std::to_string(request_.parts) + " machines need " +
                   Count(wanted, "GPU") + " and this computer has " + have +
                   ": their processes use the same ones"
             : "the job needs " + Count(wanted, "GPU") + " of a machine, and this one has " + have +
                   ": its processes use the same ones");
  }

  bool Slices() const { return request_.gpu_resource.find("mig-") != std::string::npos; }

  // Of MIG's slices CUDA shows a process one, and takes no GPU's number for another: without their
  // own names there is no choice.
  core::Variables Show(std::span<const VisibleGpu> gpus) const {
    const bool nameless = std::any_of(gpus.begin(), gpus.end(), [](const VisibleGpu& visible) {
      return !visible.name.starts_with("MIG-");
    });
    if (Slices() && nameless) return {};
    return VariablesThatShow(choice_, gpus, request_.variables);
  }

  // ---- CPUs ----

  void Place() {
    if (cores_.empty()) {
      for (Draft& draft : drafts_) Add("the machine names no CPU to bind to", &draft.reason);
      return;
    }
    shares_ = SplitCores(cores_, static_cast<int>(drafts_.size()));
    for (size_t k = 0; k < drafts_.size(); ++k) {
      Draft& draft = drafts_[k];
      if (request_.mode == Bind::kMap) {
        PlaceByMap(request_.map[k % static_cast<size_t>(request_.processes)], k, &draft);
      } else if (request_.mode == Bind::kInterleave) {
        draft.cores = AllCores();
      } else {
        draft.nodes = NodesOfGpus(&draft);
        if (draft.nodes.empty())
          draft.nodes = NodesOf(shares_[k]);
        else
          draft.cores = CoresOf(draft.nodes);
        if (draft.cores.empty()) draft.cores = Indices(shares_[k]);
      }
    }
    if (request_.mode == Bind::kSocket) WidenToSockets();
    if (request_.mode == Bind::kCoreComplex) NarrowToCaches();
    if (request_.mode == Bind::kExclusive) MakeExclusive();
    if (drafts_.size() <= cores_.size() || request_.mode == Bind::kInterleave) return;
    for (Draft& draft : drafts_) {
      Add(std::to_string(drafts_.size()) + " processes share " + Count(cores_.size(), "core"),
          &draft.reason);
    }
  }

  // The NUMA nodes whose cores suit the rank's GPUs; empty where that can't be said.
  IndexList NodesOfGpus(Draft* draft) const {
    IndexList nodes;
    for (const VisibleGpu& visible : draft->gpus) {
      if (const std::optional<int> node = OnlyNode()) return {*node};
      if (visible.gpu < 0) {
        Add("which GPU " + visible.name + " means can't be told here", &draft->reason);
        continue;
      }
      const std::optional<int> node =
          NodeOfGpu(machine_.gpus[static_cast<size_t>(visible.gpu)], &draft->reason);
      if (node) nodes = Union(nodes, {*node});
    }
    return nodes;
  }

  // Where there is no other, nothing can be far from it.
  std::optional<int> OnlyNode() const {
    if (machine_.numa_nodes.size() != 1) return std::nullopt;
    const int node = machine_.numa_nodes.front().id;
    return cores_of_.contains(node) ? std::optional(node) : std::nullopt;
  }

  std::optional<int> NodeOfGpu(const Gpu& gpu, std::string* reason) const {
    const std::string name = "GPU " + gpu.pci_address;
    if (gpu.numa_node < 0) {
      Add("the machine does not say on which NUMA node " + name + " is (numa_node=-1)", reason);
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
        at < 0 ? std::nullopt
               : Nearest(machine_.numa_nodes[static_cast<size_t>(at)], /*open=*/true);
    Add(name + " is on NUMA node " + std::to_string(node) +
            ", of which this container may use no CPU" +
            (nearest ? ": bound to NUMA node " + std::to_string(*nearest) + ", the nearest" : ""),
        reason);
    return nearest;
  }

  // The node with CPUs that is nearest; `open`: with CPUs that may be used. None where distances
  // are unknown.
  std::optional<int> Nearest(const NumaNode& from, bool open) const {
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

  void WidenToSockets() {
    constexpr size_t kNone = std::numeric_limits<size_t>::max();
    std::vector<size_t> package_of(cores_.size(), kNone);
    for (size_t package = 0; package < machine_.packages.size(); ++package) {
      for (const size_t core : CoresWithin(machine_.packages[package].cpus)) {
        package_of[core] = package;
      }
    }
    for (Draft& draft : drafts_) {
      if (machine_.packages.empty()) {
        Add("sockets are unknown here: bound as Node", &draft.reason);
        continue;
      }
      std::vector<bool> wanted(machine_.packages.size(), false);
      std::vector<bool> in(cores_.size(), false);
      for (const size_t core : draft.cores) {
        in[core] = true;
        if (package_of[core] != kNone) wanted[package_of[core]] = true;
      }
      draft.cores.clear();
      for (size_t core = 0; core < cores_.size(); ++core) {
        const bool beside = package_of[core] != kNone && wanted[package_of[core]];
        if (in[core] || beside) draft.cores.push_back(core);
      }
    }
  }

  // Ranks of the same nodes are dealt out to the caches of those, the largest first.
  void NarrowToCaches() {
    std::map<IndexList, std::vector<std::vector<size_t>>> caches;
    std::map<IndexList, size_t> dealt;
    for (Draft& draft : drafts_) {
      auto [found, is_new] = caches.try_emplace(draft.nodes);
      if (is_new) found->second = CachesOf(draft.nodes);
      if (found->second.empty()) {
        Add("last-level caches are unknown here: bound as Node", &draft.reason);
        continue;
      }
      draft.cores = found->second[dealt[draft.nodes]++ % found->second.size()];
    }
  }

  std::vector<std::vector<size_t>> CachesOf(const IndexList& nodes) const {
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
  void MakeExclusive() {
    std::map<int, std::vector<Draft*>> ranks_of;
    for (Draft& draft : drafts_) {
      draft.cores.clear();
      for (const int node : draft.nodes) ranks_of[node].push_back(&draft);
    }
    for (const auto& [node, ranks] : ranks_of) {
      const std::vector<size_t>& cores = cores_of_.at(node);
      for (size_t i = 0; i < ranks.size(); ++i) {
        const size_t from = i * cores.size() / ranks.size();
        const size_t to = std::max(from + 1, (i + 1) * cores.size() / ranks.size());
        for (size_t core = from; core < to; ++core) ranks[i]->cores.push_back(cores[core]);
        if (ranks.size() <= cores.size() || drafts_.size() > cores_.size()) continue;
        Add(std::to_string(ranks.size()) + " processes share " + Count(cores.size(), "core") +
                " of NUMA node " + std::to_string(node),
            &ranks[i]->reason);
      }
    }
    for (Draft& draft : drafts_) std::sort(draft.cores.begin(), draft.cores.end());
  }

  void PlaceByMap(const core::MappedProcess& mapped, size_t k, Draft* draft) const {
    // Validate has seen the lists.
    const Result<IndexList> cpus = ParseIndexList(mapped.cpus);
    const IndexList asked = cpus.ok() ? *cpus : IndexList{};
    draft->cores = CoresWithin(asked);
    draft->mapped_cpus = asked;
    const IndexList had = Intersect(asked, machine_.allowed_cpus);
    if (had != asked) {
      Add("its map names CPUs " + FormatIndexList(asked) + ", of which this container may use " +
              (had.empty() ? "none" : FormatIndexList(had)),
          &draft->reason);
    }
    if (draft->cores.empty()) draft->cores = Indices(shares_[k]);
    if (const Result<IndexList> memory = ParseIndexList(mapped.memory); memory.ok()) {
      draft->mapped_memory = *memory;
    }
  }

  // ---- what a process gets of it ----

  void CountRanks() {
    ranks_on_core_.assign(cores_.size(), 0);
    for (const Draft& draft : drafts_) {
      for (const size_t core : draft.cores) ++ranks_on_core_[core];
    }
  }

  // The cores it has, divided by the ranks it shares them with, and no more than its part of the
  // CPU quota.
  int Threads(const Draft& draft) const {
    const auto ranks = static_cast<double>(drafts_.size());
    double share = draft.cores.empty() ? static_cast<double>(cores_.size()) / ranks : 0;
    for (const size_t core : draft.cores) share += 1.0 / static_cast<double>(ranks_on_core_[core]);
    if (machine_.cpu_quota > 0) share = std::min(share, machine_.cpu_quota / ranks);
    constexpr double kRounding = 1e-9;
    return std::max(1, static_cast<int>(share + kRounding));
  }

  // A process of its own, or a launcher of all of them.
  RankBinding Finish(std::span<const Draft> drafts, int local_rank) const {
    RankBinding binding;
    RankBinding* rank = &binding;
    rank->local_rank = local_rank;
    rank->omp_threads = Threads(drafts.front());
    std::vector<bool> in(cores_.size(), false);
    std::vector<VisibleGpu> gpus;
    IndexList mapped_memory;
    IndexList mapped_cpus;
    for (const Draft& draft : drafts) {
      Add(draft.reason, &rank->reason);
      rank->omp_threads = std::min(rank->omp_threads, Threads(draft));
      for (const size_t core : draft.cores) in[core] = true;
      mapped_memory = Union(mapped_memory, draft.mapped_memory);
      mapped_cpus = Union(mapped_cpus, draft.mapped_cpus);
      for (const VisibleGpu& visible : draft.gpus) {
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
    rank->isolated = Show(gpus);
    IndexList nodes;
    for (size_t core = 0; core < cores_.size(); ++core) {
      if (!in[core]) continue;
      rank->cpus.insert(rank->cpus.end(), cores_[core].cpus.begin(), cores_[core].cpus.end());
      const int node = cores_[core].numa_node;
      if (node >= 0 && (nodes.empty() || nodes.back() != node)) nodes.push_back(node);
    }
    std::sort(rank->cpus.begin(), rank->cpus.end());
    // A map may name one of a core's two CPUs.
    if (const IndexList exact = Intersect(rank->cpus, mapped_cpus); !exact.empty()) {
      rank->cpus = exact;
    }
    if (nodes.size() == 1) rank->numa_node = nodes.front();
    if (!rank->cpus.empty()) PlanMemory(mapped_memory.empty() ? nodes : mapped_memory, rank);
    rank->nics = NearestNics(rank->gpus, nodes);
    return binding;
  }

  void PlanMemory(IndexList nodes, RankBinding* rank) const {
    const MemoryPolicy asked =
        request_.mode == Bind::kInterleave ? MemoryPolicy::kInterleave : request_.memory;
    if (asked == MemoryPolicy::kNone) return;
    if (nodes.empty()) {
      return Add("NUMA nodes are unknown: memory by first touch", &rank->reason);
    }
    if (!machine_.allowed_mems.empty()) {
      const IndexList allowed = Intersect(nodes, machine_.allowed_mems);
      if (allowed.empty()) {
        return Add("this container gets no memory from NUMA node " + FormatIndexList(nodes) +
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

  // ---- network cards ----

  // Of the cards that are up, RDMA devices where there are any: for each GPU those on the nearest
  // common bridge, else of its NUMA node; without a GPU, those of the nodes.
  std::vector<std::string> NearestNics(const std::vector<int>& gpus, const IndexList& nodes) const {
    const bool rdma = std::any_of(machine_.nics.begin(), machine_.nics.end(),
                                  [](const Nic& nic) { return nic.rdma && nic.up; });
    std::vector<bool> near(machine_.nics.size(), false);
    const auto mark = [&](const auto& distance) {
      size_t best = 0;
      for (const Nic& nic : machine_.nics) {
        if (nic.up && nic.rdma == rdma) best = std::max(best, distance(nic));
      }
      for (size_t i = 0; best > 0 && i < machine_.nics.size(); ++i) {
        const Nic& nic = machine_.nics[i];
        if (nic.up && nic.rdma == rdma && distance(nic) == best) near[i] = true;
      }
    };
    for (const int gpu : gpus) {
      const Gpu& own = machine_.gpus[static_cast<size_t>(gpu)];
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
      if (near[i]) names.push_back(machine_.nics[i].name);
    }
    return names;
  }

  // ---- cores ----

  static IndexList NodesOf(const std::vector<Core>& cores) {
    IndexList nodes;
    for (const Core& core : cores) {  // which stand node by node
      if (nodes.empty() || nodes.back() != core.numa_node) nodes.push_back(core.numa_node);
    }
    return nodes;
  }
  std::vector<size_t> CoresOf(const IndexList& nodes) const {
    std::vector<size_t> cores;
    for (const int node : nodes) {
      const std::vector<size_t>& some = cores_of_.at(node);
      cores.insert(cores.end(), some.begin(), some.end());
    }
    return cores;
  }
  std::vector<size_t> CoresWithin(const IndexList& cpus) const {
    std::vector<size_t> cores;
    for (size_t i = 0; i < cores_.size(); ++i) {
      const IndexList& own = cores_[i].cpus;
      if (std::any_of(own.begin(), own.end(), [&](int cpu) { return Contains(cpus, cpu); })) {
        cores.push_back(i);
      }
    }
    return cores;
  }
  std::vector<size_t> AllCores() const {
    std::vector<size_t> cores(cores_.size());
    for (size_t i = 0; i < cores.size(); ++i) cores[i] = i;
    return cores;
  }
  std::vector<size_t> Indices(const std::vector<Core>& share) const {
    std::vector<size_t> indices;
    for (size_t i = 0; i < cores_.size(); ++i) {
      if (cores_[i].cpus == share[indices.size()].cpus) indices.push_back(i);
      if (indices.size() == share.size()) break;
    }
    return indices;
  }

  void Note(const std::string& note) {
    if (!note.empty()) notes_.push_back(note);
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
  const std::vector<Core> cores_;  // by NUMA node, then CPU
  std::map<int, std::vector<size_t>> cores_of_;
  const GpuChoice choice_;
  std::vector<std::vector<Core>> shares_;  // an even cut, for who has no place of its own
  std::vector<Draft> drafts_;
  std::vector<size_t> ranks_on_core_;
  bool split_ = false;  // each machine of the computer has its own GPUs
  std::vector<std::string> notes_;
};

}  // namespace

BindingRequest RequestOf(const core::Spec& spec, const std::vector<std::string>& environment) {
  BindingRequest request;
  request.mode = spec.topology.bind;
  request.memory = spec.topology.memory_policy;
  request.policy = spec.topology.policy;
  request.processes = spec.processes_per_machine;
  request.launcher = spec.launch == core::Launch::kPerMachine;
  request.gpus = spec.resources_per_process.gpu;
  request.visibility = spec.topology.gpu_visibility;
  request.gpu_resource = spec.resources_per_process.gpu_resource;
  request.map = spec.topology.map;
  for (const std::string_view name : {kCudaVisible, kRocrVisible, kHipVisible}) {
    const auto own =
        std::find_if(spec.env.begin(), spec.env.end(),
                     [&](const core::EnvVar& variable) { return variable.name == name; });
    // What comes from elsewhere is in a pod's environment already.
    if (own != spec.env.end() && own->value_from.IsNull()) {
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
  assert(request.part >= 0 && request.part < request.parts);
  Planner planner(machine, request);
  planner.Prepare();
  return planner.PlanPart(request.part);
}

std::vector<BindingPlan> PlanComputer(const Machine& machine, const BindingRequest& request) {
  Planner planner(machine, request);
  planner.Prepare();
  std::vector<BindingPlan> plans;
  for (int part = 0; part < request.parts; ++part) plans.push_back(planner.PlanPart(part));
  return plans;
}

}  // namespace lockstep::topology
