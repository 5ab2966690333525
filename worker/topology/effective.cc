#include "worker/topology/effective.h"

#include <string.h>

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

bool PolicyMatches(const std::string& policy, const RankBinding& rank) {
  const size_t colon = policy.find(':');
  if (colon == std::string::npos) return false;
  const std::string mode = policy.substr(0, colon);
  const Result<IndexList> nodes = ParseIndexList(policy.substr(colon + 1));
  const bool mode_matches =
      rank.memory == MemoryPolicy::kStrict ? mode == "bind" : mode.starts_with("prefer");
  return mode_matches && nodes.ok() && *nodes == rank.memory_nodes;
}

// Why the CPUs are not as planned; empty if they are.
std::string CpuProblem(const RankBinding& rank, const BindingErrno& result,
                       const IndexList& actual) {
  if (result.affinity != 0) return CallError("sched_setaffinity", result.affinity);
  if (actual == rank.cpus) return "";
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

}  // namespace

std::string EffectiveBinding::ToString(Bind asked) const {
  std::string text = std::string(core::ToString(mode)) + " (asked " + core::ToString(asked) + ")";
  return reason.empty() ? text : text + ": " + reason;
}

EffectiveBinding ReadBack(pid_t pid, Bind asked, const RankBinding& rank,
                          const BindingErrno& result, const std::string& root) {
  EffectiveBinding effective;
  const std::string proc = root + "/proc/" + std::to_string(pid);
  const std::string status = ReadSmallFile(proc + "/status").value_or("");
  const Result<IndexList> cpus =
      ParseIndexList(StatusField(status, "Cpus_allowed_list").value_or(""));
  const Result<IndexList> mems =
      ParseIndexList(StatusField(status, "Mems_allowed_list").value_or(""));
  if (cpus.ok()) effective.cpus = *cpus;
  if (mems.ok()) effective.mems = *mems;
  effective.memory_policy = PolicyFromNumaMaps(ReadSmallFile(proc + "/numa_maps").value_or(""));
  if (asked == Bind::kNone) return effective;
  if (effective.cpus.empty()) {
    effective.reason = "cannot read " + proc + "/status; has the process ended?";
    return effective;
  }
  const std::string cpu_problem = rank.cpus.empty() ? "" : CpuProblem(rank, result, effective.cpus);
  const std::string memory_problem = MemoryProblem(rank, result, effective.memory_policy);
  effective.reason = Join(Join(cpu_problem, memory_problem), rank.reason);
  const bool cpus_bound = !rank.cpus.empty() && cpu_problem.empty();
  const bool memory_bound = rank.memory != MemoryPolicy::kNone && memory_problem.empty();
  if (effective.reason.empty()) {
    effective.mode = core::Binding::kNode;
  } else if (cpus_bound || memory_bound) {
    effective.mode = core::Binding::kPartial;
  }
  return effective;
}

}  // namespace lockstep::topology
