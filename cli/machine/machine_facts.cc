#include "cli/machine/machine_facts.h"

#include <array>
#include <optional>

#include "core/text/limited_text.h"
#include "worker/topology/cgroup.h"
#include "worker/topology/small_file.h"

namespace lockstep::cli {
namespace {

using topology::ReadSmallFile;
using topology::StatusField;

constexpr size_t kMaxValue = 512;

struct Source {
  const char* name;
  const char* file;
  const char* field;  // of a file of lines "name: value"; nullptr: its first line
};

constexpr std::array<Source, 15> kSources = {{
    {"kernel", "proc/sys/kernel/osrelease", nullptr},
    {"processor", "proc/cpuinfo", "model name"},
    {"online CPUs", "sys/devices/system/cpu/online", nullptr},
    {"online NUMA nodes", "sys/devices/system/node/online", nullptr},
    {"SMT", "sys/devices/system/cpu/smt/control", nullptr},
    {"allowed CPUs", "proc/self/status", "Cpus_allowed_list"},
    {"allowed NUMA nodes", "proc/self/status", "Mems_allowed_list"},
    {"seccomp mode", "proc/self/status", "Seccomp"},  // 0: none, 2: a filter
    {"bounding capabilities", "proc/self/status", "CapBnd"},
    {"kernel.numa_balancing", "proc/sys/kernel/numa_balancing", nullptr},
    {"kernel.perf_event_paranoid", "proc/sys/kernel/perf_event_paranoid", nullptr},
    {"vm.zone_reclaim_mode", "proc/sys/vm/zone_reclaim_mode", nullptr},
    {"transparent huge pages", "sys/kernel/mm/transparent_hugepage/enabled", nullptr},
    {"frequency governor", "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", nullptr},
    {"NVIDIA driver", "proc/driver/nvidia/version", nullptr},
}};

// The field of /proc/cpuinfo stands before blanks and a colon.
std::optional<std::string> FieldOf(const std::string& text, const std::string& name) {
  if (std::optional<std::string> value = StatusField(text, name)) return value;
  std::optional<std::string> value = StatusField(text, name + "\t");
  if (value && value->starts_with(": ")) value->erase(0, 2);
  return value;
}

std::string FirstLine(const std::string& text) {
  return core::OneLine(core::FirstBytes(text.substr(0, text.find('\n')), kMaxValue));
}

// The innermost folder of the cgroup's that has the file.
MachineFact CgroupFact(const std::string& root, const char* name, const std::string& controller,
                       const char* v2, const char* v1) {
  const topology::CgroupFolders folders = topology::FindCgroupFolders(root, controller);
  for (const auto& [paths, file] : {std::pair(&folders.v2, v2), std::pair(&folders.v1, v1)}) {
    // The path can hold a pod's or a user's number: of it, only the controller's file is told.
    const auto text = topology::ReadInnermost(*paths, std::string("/") + file);
    if (text) return {name, FirstLine(*text), file};
  }
  return {name, "", v2};
}

}  // namespace

std::vector<MachineFact> ReadMachineFacts(const std::string& root) {
  std::vector<MachineFact> facts;
  for (const Source& source : kSources) {
    const std::string text = ReadSmallFile(root + "/" + source.file).value_or("");
    facts.push_back(
        {source.name,
         FirstLine(source.field == nullptr ? text : FieldOf(text, source.field).value_or("")),
         std::string("/") + source.file +
             (source.field == nullptr ? "" : std::string(": ") + source.field)});
  }
  facts.push_back(CgroupFact(root, "cgroup CPU limit", "cpu", "cpu.max", "cpu.cfs_quota_us"));
  facts.push_back(
      CgroupFact(root, "cgroup memory limit", "memory", "memory.max", "memory.limit_in_bytes"));
  facts.push_back(
      CgroupFact(root, "cgroup CPUs", "cpuset", "cpuset.cpus.effective", "cpuset.effective_cpus"));
  facts.push_back(CgroupFact(root, "cgroup NUMA nodes", "cpuset", "cpuset.mems.effective",
                             "cpuset.effective_mems"));
  return facts;
}

OrderedJson ToJson(const std::vector<MachineFact>& facts) {
  OrderedJson json = OrderedJson::object();
  for (const MachineFact& fact : facts) {
    json[fact.name] = {{"value", fact.value.empty() ? OrderedJson() : OrderedJson(fact.value)},
                       {"source", fact.source}};
  }
  return json;
}

}  // namespace lockstep::cli
