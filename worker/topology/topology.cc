#include "worker/topology/topology.h"

#include <hwloc.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "worker/topology/cpu_quota.h"
#include "worker/topology/small_file.h"

namespace lockstep::topology {
namespace {

// Sets (or, with nullptr, unsets) an environment variable for the life of the object.
class ScopedEnv {
 public:
  ScopedEnv(std::string name, const char* value) : name_(std::move(name)) {
    if (const char* old = getenv(name_.c_str())) old_ = old;
    Set(value);
  }
  ~ScopedEnv() { Set(old_ ? old_->c_str() : nullptr); }
  ScopedEnv(const ScopedEnv&) = delete;
  ScopedEnv& operator=(const ScopedEnv&) = delete;

 private:
  void Set(const char* value) const {
    if (value != nullptr) {
      setenv(name_.c_str(), value, 1);
    } else {
      unsetenv(name_.c_str());
    }
  }

  std::string name_;
  std::optional<std::string> old_;
};

using Topology = std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)>;

// hwloc's environment for reading the machine from the Linux kernel: no XML or synthetic machine
// that the environment names, and no plugins, which a static program must not load.
Topology Load(const std::string& root, const std::string& xml_file) {
  const ScopedEnv fsroot("HWLOC_FSROOT", xml_file.empty() ? root.c_str() : nullptr);
  const ScopedEnv components("HWLOC_COMPONENTS", xml_file.empty() ? "linux,stop" : "xml,stop");
  const ScopedEnv plugins("HWLOC_PLUGINS_PATH", "/dev/null");
  const ScopedEnv xml("HWLOC_XMLFILE", nullptr);
  const ScopedEnv synthetic("HWLOC_SYNTHETIC", nullptr);
  const ScopedEnv thissystem("HWLOC_THISSYSTEM", nullptr);

  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return {nullptr, hwloc_topology_destroy};
  Topology topology(raw, hwloc_topology_destroy);
  // Nodes outside this cpuset are needed as well: a GPU may be attached to one.
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_NONE);
  if (!xml_file.empty() && hwloc_topology_set_xml(raw, xml_file.c_str()) != 0)
    return {nullptr, hwloc_topology_destroy};
  if (hwloc_topology_load(raw) != 0) topology.reset();
  return topology;
}

IndexList ToList(hwloc_const_bitmap_t bitmap) {
  IndexList list;
  if (hwloc_bitmap_weight(bitmap) < 0) return list;  // infinite: "everything", that is unknown
  for (int i = hwloc_bitmap_first(bitmap); i >= 0; i = hwloc_bitmap_next(bitmap, i)) {
    list.push_back(i);
  }
  return list;
}

bool IsGpuMemory(hwloc_obj_t node) {
  return node->subtype != nullptr && std::strcmp(node->subtype, "GPUMemory") == 0;
}

std::vector<NumaNode> ReadNumaNodes(hwloc_topology_t topology) {
  std::vector<NumaNode> nodes;
  hwloc_obj_t object = nullptr;
  while ((object = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, object)) != nullptr) {
    NumaNode node;
    node.id = static_cast<int>(object->os_index);
    node.cpus = ToList(object->cpuset);
    if (!node.cpus.empty() && !IsGpuMemory(object)) nodes.push_back(std::move(node));
  }
  std::sort(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  return nodes;
}

void ReadDistances(hwloc_topology_t topology, std::vector<NumaNode>* nodes) {
  unsigned count = 1;
  hwloc_distances_s* matrix = nullptr;
  if (hwloc_distances_get_by_type(topology, HWLOC_OBJ_NUMANODE, &count, &matrix,
                                  HWLOC_DISTANCES_KIND_MEANS_LATENCY, 0) != 0 ||
      count == 0) {
    return;
  }
  const auto row_of = [matrix](int id) -> std::optional<unsigned> {
    for (unsigned i = 0; i < matrix->nbobjs; ++i) {
      if (static_cast<int>(matrix->objs[i]->os_index) == id) return i;
    }
    return std::nullopt;
  };
  for (NumaNode& from : *nodes) {
    for (const NumaNode& to : *nodes) {
      const auto row = row_of(from.id);
      const auto column = row_of(to.id);
      if (!row || !column) break;
      from.distances.push_back(static_cast<int>(matrix->values[*row * matrix->nbobjs + *column]));
    }
    if (from.distances.size() != nodes->size()) from.distances.clear();
  }
  hwloc_distances_release(topology, matrix);
}

std::vector<Core> ReadCores(hwloc_topology_t topology, const std::vector<NumaNode>& nodes) {
  const bool has_cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0;
  const hwloc_obj_type_t type = has_cores ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
  std::vector<Core> cores;
  hwloc_obj_t object = nullptr;
  while ((object = hwloc_get_next_obj_by_type(topology, type, object)) != nullptr) {
    Core core;
    core.cpus = ToList(object->cpuset);
    if (core.cpus.empty()) continue;
    const auto node = std::find_if(nodes.begin(), nodes.end(), [&](const NumaNode& candidate) {
      return Contains(candidate.cpus, core.cpus.front());
    });
    if (node != nodes.end()) core.numa_node = node->id;
    cores.push_back(std::move(core));
  }
  std::sort(cores.begin(), cores.end(),
            [](const Core& a, const Core& b) { return a.cpus < b.cpus; });
  return cores;
}

// What the kernel lets this process use; `otherwise` where /proc doesn't say.
IndexList ReadAllowed(const std::string& status, const std::string& field, IndexList otherwise,
                      Fact* fact) {
  const std::optional<std::string> text = StatusField(status, field);
  Result<IndexList> list = ParseIndexList(text.value_or(""));
  if (!list.ok() || list->empty()) {
    fact->source = "hwloc: /proc/self/status has no " + field;
    return otherwise;
  }
  fact->source = "/proc/self/status: " + field + " " + *text;
  return *list;
}

}  // namespace

int Machine::FindNumaNode(int id) const {
  for (size_t i = 0; i < numa_nodes.size(); ++i) {
    if (numa_nodes[i].id == id) return static_cast<int>(i);
  }
  return -1;
}

Result<Machine> DiscoverXml(const std::string& path) {
  const Topology topology = Load("/", path);
  if (topology == nullptr) return Error::Invalid(path + " is no topology that hwloc can read");
  Machine machine;
  machine.numa_nodes = ReadNumaNodes(topology.get());
  ReadDistances(topology.get(), &machine.numa_nodes);
  machine.cores = ReadCores(topology.get(), machine.numa_nodes);
  machine.allowed_cpus = ToList(hwloc_topology_get_topology_cpuset(topology.get()));
  machine.allowed_mems = ToList(hwloc_topology_get_topology_nodeset(topology.get()));
  if (machine.allowed_cpus.empty()) return Error::Invalid(path + " names no CPU");
  machine.facts = {{"the machine", "hwloc's XML, " + path}};
  return machine;
}

Result<Machine> Discover(const std::string& root) {
  const Topology topology = Load(root, "");
  if (topology == nullptr) {
    return Error::Unavailable("hwloc cannot read the machine's topology below " + root +
                              "; is /sys mounted?");
  }
  Machine machine;
  machine.numa_nodes = ReadNumaNodes(topology.get());
  ReadDistances(topology.get(), &machine.numa_nodes);
  machine.cores = ReadCores(topology.get(), machine.numa_nodes);

  const std::string status = ReadSmallFile(root + "/proc/self/status").value_or("");
  const IndexList online = ToList(hwloc_topology_get_topology_cpuset(topology.get()));
  Fact cpus{"allowed CPUs", ""};
  Fact mems{"allowed NUMA nodes", ""};
  machine.allowed_cpus = Intersect(
      online, ReadAllowed(status, "Cpus_allowed_list",
                          ToList(hwloc_topology_get_allowed_cpuset(topology.get())), &cpus));
  machine.allowed_mems =
      ReadAllowed(status, "Mems_allowed_list",
                  ToList(hwloc_topology_get_allowed_nodeset(topology.get())), &mems);
  if (machine.allowed_cpus.empty()) {
    return Error::Unavailable("no CPU is both online (" + FormatIndexList(online) +
                              ") and allowed (" + cpus.source + ")");
  }

  Fact gpus{"GPUs", ""};
  machine.gpus = DiscoverGpus(root, &gpus.source);
  const CpuQuota quota = ReadCpuQuota(root);
  machine.cpu_quota = quota.cpus;
  machine.facts = {{"NUMA nodes and cores", "hwloc, below " + root + "sys"},
                   cpus,
                   mems,
                   gpus,
                   {"CPU quota", quota.source}};
  return machine;
}

std::string Summary(const Machine& machine) {
  std::string text;
  const auto count = [&](size_t number, const std::string& what) {
    if (number == 0) return;
    text +=
        (text.empty() ? "" : ", ") + std::to_string(number) + " " + what + (number > 1 ? "s" : "");
  };
  count(machine.packages.size(), "package");
  count(machine.numa_nodes.size(), "NUMA node");
  count(machine.cores.size(), "core");
  count(machine.gpus.size(), "GPU");
  count(machine.nics.size(), "network card");
  return text;
}

Machine WithoutTopology(const std::string& why) {
  Machine machine;
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &set)) continue;
    machine.allowed_cpus.push_back(cpu);
    machine.cores.push_back({.cpus = {cpu}});
  }
  machine.facts = {{"allowed CPUs", "sched_getaffinity: " + why}};
  return machine;
}

}  // namespace lockstep::topology
