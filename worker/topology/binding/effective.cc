#include "worker/topology/binding/effective.h"

#include <errno.h>
#include <string.h>

#include <algorithm>
#include <utility>

#include "base/text/ascii.h"
#include "worker/topology/small_file.h"

namespace lockstep::topology {
namespace {

std::string CallError(const std::string& call, int error) {
  const char* name = strerrorname_np(error);
  return call + ": " + (name != nullptr ? name : "errno " + std::to_string(error));
}

// The policy of the first mapping: "7ffe0000 prefer (many):0 stack anon=3 ..." gives
// "prefer (many):0". A fresh process's mappings have no policy of their own, so it is the task's.
std::string PolicyFromNumaMaps(const std::string& numa_maps) {
  const size_t blank = numa_maps.find(' ');
  if (blank == std::string::npos) return "";
  constexpr std::string_view kMany = "prefer (many)";
  const size_t start = blank + 1;
  const bool many = numa_maps.compare(start, kMany.size(), kMany) == 0;
  const size_t end = numa_maps.find_first_of(" \n", many ? start + kMany.size() : start);
  return numa_maps.substr(start, end == std::string::npos ? end : end - start);
}

std::string_view ModeOf(MemoryPolicy policy) {
  if (policy == MemoryPolicy::kStrict) return "bind";
  return policy == MemoryPolicy::kInterleave ? "interleave" : "prefer";
}

bool PolicyMatches(const std::string& policy, const RankBinding& rank) {
  const size_t colon = policy.find(':');
  if (colon == std::string::npos) return false;
  const Result<IndexList> nodes = ParseIndexList(policy.substr(colon + 1));
  return policy.starts_with(ModeOf(rank.memory)) && nodes.ok() && *nodes == rank.memory_nodes;
}

// Why the CPUs are not as planned; empty if they are, or some of them.
std::string CpuProblem(const RankBinding& rank, const BindingErrno& result,
                       const IndexList& actual) {
  if (rank.cpus.empty()) return rank.reason.empty() ? "no CPUs were planned" : "";
  if (result.affinity != 0) return CallError("sched_setaffinity", result.affinity);
  if (Intersect(actual, rank.cpus) == actual) return "";
  return "runs on CPUs " + FormatIndexList(actual) + ", not on " + FormatIndexList(rank.cpus);
}

// Why the memory policy is not as planned; empty if it is, or if the kernel took it and doesn't
// show it.
std::string MemoryProblem(const RankBinding& rank, const BindingErrno& result,
                          const std::string& policy) {
  if (rank.memory == MemoryPolicy::kNone) return "";
  if (result.memory != 0) return CallError("set_mempolicy", result.memory);
  if (policy.empty() || PolicyMatches(policy, rank)) return "";
  return "memory policy is " + policy;
}

std::string Join(const std::string& a, const std::string& b) {
  return a.empty() || b.empty() ? a + b : a + "; " + b;
}

// Below it, what a process was born with decides.
constexpr uint64_t kFewBytes = 4 << 20;

// Why the process's memory is not where it should be; empty if nine tenths of it are.
std::string PlacementProblem(const MemoryPlacement& placement, const IndexList& local_nodes) {
  const uint64_t all = placement.local_bytes + placement.remote_bytes;
  if (placement.remote_bytes <= kFewBytes || placement.remote_bytes <= all / 10) return "";
  return std::to_string(placement.remote_bytes * 100 / all) +
         " % of its memory is not on NUMA node " + FormatIndexList(local_nodes);
}

// The word of a numa_maps line after `name`, such as "4" of "kernelpagesize_kB=4".
std::string_view WordAfter(std::string_view line, std::string_view name) {
  const size_t at = line.find(name);
  if (at == std::string_view::npos) return "";
  const std::string_view rest = line.substr(at + name.size());
  return rest.substr(0, rest.find(' '));
}

core::Binding AsAsked(Bind asked) {
  switch (asked) {
    case Bind::kNone:
      return core::Binding::kNone;
    case Bind::kNode:
      return core::Binding::kNode;
    case Bind::kSocket:
      return core::Binding::kSocket;
    case Bind::kCoreComplex:
      return core::Binding::kCoreComplex;
    case Bind::kExclusive:
      return core::Binding::kExclusive;
    case Bind::kInterleave:
      return core::Binding::kInterleave;
    case Bind::kMap:
      return core::Binding::kMap;
  }
  return core::Binding::kUnknown;
}

}  // namespace

std::string EffectiveBinding::ToString(Bind asked) const {
  std::string text = std::string(core::ToString(mode)) + " (asked " + core::ToString(asked) + ")";
  const std::string more = Join(reason, note);
  return more.empty() ? text : text + ": " + more;
}

MemoryPlacement PlacementOf(std::string_view numa_maps, const Locality& nodes) {
  MemoryPlacement placement;
  for (size_t at = 0; at < numa_maps.size();) {
    const size_t end = std::min(numa_maps.find('\n', at), numa_maps.size());
    const std::string_view line = numa_maps.substr(at, end - at);
    at = end + 1;
    const std::string_view file = WordAfter(line, " file=");
    if (!file.empty() && !file.starts_with("/anon_hugepage")) continue;
    const uint64_t page = ParseNumber<uint64_t>(WordAfter(line, " kernelpagesize_kB=")).value_or(4)
                          << 10;
    for (size_t n = line.find(" N"); n != std::string_view::npos; n = line.find(" N", n + 1)) {
      const std::string_view word = line.substr(n + 2, line.find(' ', n + 1) - n - 2);
      const size_t equals = std::min(word.find('='), word.size());
      const auto node = ParseNumber<int>(word.substr(0, equals));
      const auto pages = ParseNumber<uint64_t>(word.substr(std::min(equals + 1, word.size())));
      if (!node || !pages) continue;
      if (Contains(nodes.local, *node)) placement.local_bytes += *pages * page;
      if (Contains(nodes.remote, *node)) placement.remote_bytes += *pages * page;
    }
  }
  return placement;
}

Locality LocalityOf(const Machine& machine, const RankBinding& rank) {
  Locality nodes;
  if (rank.memory == MemoryPolicy::kInterleave) return nodes;
  nodes.local = rank.memory_nodes;
  for (const NumaNode& node : machine.numa_nodes) {
    const bool own = rank.memory_nodes.empty() && !Intersect(node.cpus, rank.cpus).empty();
    if (own) nodes.local = Union(nodes.local, {node.id});
  }
  if (nodes.local.empty()) return nodes;
  for (const NumaNode& node : machine.numa_nodes) {
    if (!Contains(nodes.local, node.id)) nodes.remote = Union(nodes.remote, {node.id});
  }
  return nodes;
}

Duration PlacementPause(Duration took, int machines) {
  constexpr Duration kLeast = seconds(60);
  constexpr int kShare = 100;
  return std::max(kLeast, took * kShare * machines);
}

EffectiveBinding ReadBack(const BoundProcess& process, const std::string& root) {
  const RankBinding& rank = process.rank;
  EffectiveBinding effective;
  const std::string proc = root + "/proc/" + std::to_string(process.pid);
  const std::string status = ReadSmallFile(proc + "/status").value_or("");
  const Result<IndexList> cpus =
      ParseIndexList(StatusField(status, "Cpus_allowed_list").value_or(""));
  const Result<IndexList> mems =
      ParseIndexList(StatusField(status, "Mems_allowed_list").value_or(""));
  if (cpus.ok()) effective.cpus = *cpus;
  if (mems.ok()) effective.mems = *mems;
  const std::string numa_maps = ReadSmallFile(proc + "/numa_maps").value_or("");
  effective.memory_policy = PolicyFromNumaMaps(numa_maps);
  if (!process.nodes.remote.empty() && !numa_maps.empty()) {
    effective.placement = PlacementOf(numa_maps, process.nodes);
  }
  if (process.asked == Bind::kNone) return effective;
  if (effective.cpus.empty()) {
    effective.reason = "cannot read " + proc + "/status; has the process ended?";
    return effective;
  }
  const std::string cpu_problem = CpuProblem(rank, process.result, effective.cpus);
  const bool cpus_bound = !rank.cpus.empty() && cpu_problem.empty();
  std::string memory_problem = MemoryProblem(rank, process.result, effective.memory_policy);
  const bool memory_bound = rank.memory != MemoryPolicy::kNone && memory_problem.empty();
  const bool own_policy = process.result.memory == 0 && !memory_problem.empty();
  const bool changed = process.was_as_asked && (!cpu_problem.empty() || own_policy);
  if (cpus_bound && effective.cpus != rank.cpus) {
    effective.note = "narrowed by the process to CPUs " + FormatIndexList(effective.cpus);
  }
  if (!memory_problem.empty() && rank.memory == MemoryPolicy::kPreferred && cpus_bound) {
    // What a process touches first comes from the node it runs on: with its CPUs bound, a
    // preference adds nothing that the placement does not show.
    effective.note =
        Join(effective.note, "memory by first touch (" + std::exchange(memory_problem, "") + ")");
  } else if (process.result.memory == EPERM) {
    memory_problem += ", give the container the capability SYS_NICE";
  }
  std::string far;
  if (effective.placement) far = PlacementProblem(*effective.placement, process.nodes.local);
  const std::string problems = Join(Join(cpu_problem, memory_problem), far);
  if (changed) {
    effective.note =
        Join(effective.note, problems.empty() ? "" : "by the process itself: " + problems);
  }
  effective.reason = changed ? rank.reason : Join(problems, rank.reason);
  if (effective.reason.empty()) {
    effective.mode = AsAsked(process.asked);
  } else if (cpus_bound || memory_bound) {
    effective.mode = core::Binding::kPartial;
  }
  return effective;
}

}  // namespace lockstep::topology
