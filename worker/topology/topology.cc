#include "worker/topology/topology.h"

#include <errno.h>
#include <hwloc.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "worker/topology/cpu_quota.h"
#include "worker/topology/pci_path.h"
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
  // GPUs and network cards of this machine are read from sysfs, as this container sees them.
  hwloc_topology_set_io_types_filter(
      raw, xml_file.empty() ? HWLOC_TYPE_FILTER_KEEP_NONE : HWLOC_TYPE_FILTER_KEEP_ALL);
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

void ReadNumaNodes(hwloc_topology_t topology, Machine* machine) {
  hwloc_obj_t object = nullptr;
  while ((object = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, object)) != nullptr) {
    NumaNode node;
    node.id = static_cast<int>(object->os_index);
    node.cpus = ToList(object->cpuset);
    node.memory_bytes = static_cast<int64_t>(object->attr->numanode.local_memory);
    if (node.cpus.empty() || IsGpuMemory(object)) {
      node.cpus.clear();
      machine->memory_nodes.push_back(std::move(node));
      continue;
    }
    for (const Package& package : machine->packages) {
      if (Intersect(package.cpus, node.cpus) == node.cpus) node.package = package.id;
    }
    machine->numa_nodes.push_back(std::move(node));
  }
  for (std::vector<NumaNode>* nodes : {&machine->numa_nodes, &machine->memory_nodes}) {
    std::sort(nodes->begin(), nodes->end(),
              [](const auto& a, const auto& b) { return a.id < b.id; });
  }
}

// Of each node to those with CPUs.
void ReadDistances(hwloc_topology_t topology, Machine* machine) {
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
  const auto read = [&](NumaNode& from) {
    for (const NumaNode& to : machine->numa_nodes) {
      const auto row = row_of(from.id);
      const auto column = row_of(to.id);
      if (!row || !column) break;
      from.distances.push_back(static_cast<int>(matrix->values[*row * matrix->nbobjs + *column]));
    }
    if (from.distances.size() != machine->numa_nodes.size()) from.distances.clear();
  };
  std::for_each(machine->numa_nodes.begin(), machine->numa_nodes.end(), read);
  std::for_each(machine->memory_nodes.begin(), machine->memory_nodes.end(), read);
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

void ReadPackages(hwloc_topology_t topology, Machine* machine) {
  hwloc_obj_t object = nullptr;
  while ((object = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PACKAGE, object)) != nullptr) {
    machine->packages.push_back({static_cast<int>(object->os_index), ToList(object->cpuset)});
  }
  std::erase_if(machine->packages, [](const Package& package) { return package.cpus.empty(); });
  std::sort(machine->packages.begin(), machine->packages.end(),
            [](const Package& a, const Package& b) { return a.id < b.id; });
}

void ReadCaches(hwloc_topology_t topology, Machine* machine) {
  for (const hwloc_obj_type_t type : {HWLOC_OBJ_L5CACHE, HWLOC_OBJ_L4CACHE, HWLOC_OBJ_L3CACHE}) {
    hwloc_obj_t object = nullptr;
    while ((object = hwloc_get_next_obj_by_type(topology, type, object)) != nullptr) {
      machine->caches.push_back({ToList(object->cpuset),
                                 static_cast<int64_t>(object->attr->cache.size),
                                 static_cast<int>(object->attr->cache.depth)});
    }
    if (!machine->caches.empty()) break;
  }
  std::sort(machine->caches.begin(), machine->caches.end(),
            [](const CacheGroup& a, const CacheGroup& b) { return a.cpus < b.cpus; });
}

void ReadCpusAndMemory(hwloc_topology_t topology, Machine* machine) {
  ReadPackages(topology, machine);
  ReadNumaNodes(topology, machine);
  ReadDistances(topology, machine);
  machine->cores = ReadCores(topology, machine->numa_nodes);
  ReadCaches(topology, machine);
}

// The lowest bridges that have several devices below them.
void FindSwitches(Machine* machine) {
  std::map<std::string, PciSwitch> bridges;
  const auto add = [&](const std::string& path, size_t index, std::vector<int> PciSwitch::* list) {
    for (size_t slash = path.find('/'); slash != std::string::npos;) {
      const size_t next = path.find('/', slash + 1);
      if (next == std::string::npos) break;  // the device itself
      PciSwitch& bridge = bridges[path.substr(0, next)];
      bridge.pci_path = path.substr(0, next);
      (bridge.*list).push_back(static_cast<int>(index));
      slash = next;
    }
  };
  for (size_t i = 0; i < machine->gpus.size(); ++i) {
    add(machine->gpus[i].pci_path, i, &PciSwitch::gpus);
  }
  for (size_t i = 0; i < machine->nics.size(); ++i) {
    add(machine->nics[i].pci_path, i, &PciSwitch::nics);
  }
  // In order of path a bridge stands behind those above it.
  for (auto bridge = bridges.begin(); bridge != bridges.end(); ++bridge) {
    const PciSwitch& found = bridge->second;
    if (found.gpus.size() + found.nics.size() < 2) continue;
    const bool all_lower = std::any_of(std::next(bridge), bridges.end(), [&](const auto& other) {
      return other.first.starts_with(bridge->first + "/") && other.second.gpus == found.gpus &&
             other.second.nics == found.nics;
    });
    if (!all_lower) machine->switches.push_back(found);
  }
}

// ---- devices of an XML file ----

std::string AddressOf(const hwloc_obj_attr_u::hwloc_pcidev_attr_s& pci) {
  std::array<char, 32> text;
  snprintf(text.data(), text.size(), "%04x:%02x:%02x.%x", static_cast<unsigned>(pci.domain),
           pci.bus, pci.dev, pci.func);
  return text.data();
}

// As sysfs would name the way to it.
std::string PathOf(hwloc_obj_t device) {
  std::string path;
  for (hwloc_obj_t at = device; at != nullptr && hwloc_obj_type_is_io(at->type); at = at->parent) {
    if (at->type == HWLOC_OBJ_PCI_DEVICE) {
      path = AddressOf(at->attr->pcidev);
    } else if (at->type == HWLOC_OBJ_BRIDGE) {
      const hwloc_obj_attr_u::hwloc_bridge_attr_s& bridge = at->attr->bridge;
      std::array<char, 32> root;
      snprintf(root.data(), root.size(), "pci%04x:%02x",
               static_cast<unsigned>(bridge.downstream.pci.domain),
               bridge.downstream.pci.secondary_bus);
      const bool host = bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST;
      if (!path.empty()) path.insert(0, "/");
      path.insert(0, host ? root.data() : AddressOf(bridge.upstream.pci));
    }
  }
  return path;
}

int NumaNodeOf(hwloc_topology_t topology, hwloc_obj_t device) {
  hwloc_obj_t local = hwloc_get_non_io_ancestor_obj(topology, device);
  if (local == nullptr || local->nodeset == nullptr) return -1;
  int only = -1;
  for (int id = hwloc_bitmap_first(local->nodeset); id >= 0;
       id = hwloc_bitmap_next(local->nodeset, id)) {
    hwloc_obj_t node = hwloc_get_numanode_obj_by_os_index(topology, static_cast<unsigned>(id));
    if (node == nullptr || hwloc_bitmap_iszero(node->cpuset) || IsGpuMemory(node)) continue;
    if (only >= 0) return -1;
    only = id;
  }
  return only;
}

void ReadXmlGpus(hwloc_topology_t topology, Machine* machine) {
  hwloc_obj_t device = nullptr;
  while ((device = hwloc_get_next_pcidev(topology, device)) != nullptr) {
    const hwloc_obj_attr_u::hwloc_pcidev_attr_s& pci = device->attr->pcidev;
    const bool nvidia = pci.vendor_id == 0x10de && (pci.class_id == 0x300 || pci.class_id == 0x302);
    const bool amd = pci.vendor_id == 0x1002 &&
                     (pci.class_id == 0x300 || pci.class_id == 0x380 || pci.class_id == 0x1200);
    if (!nvidia && !amd) continue;
    Gpu gpu;
    gpu.vendor = nvidia ? GpuVendor::kNvidia : GpuVendor::kAmd;
    gpu.pci_address = AddressOf(pci);
    gpu.pci_path = PathOf(device);
    gpu.numa_node = NumaNodeOf(topology, device);
    for (hwloc_obj_t child = device->io_first_child; child != nullptr;
         child = child->next_sibling) {
      const char* uuid = hwloc_obj_get_info_by_name(child, nvidia ? "NVIDIAUUID" : "AMDUUID");
      if (uuid != nullptr) gpu.uuid = uuid;
    }
    machine->gpus.push_back(std::move(gpu));
  }
  std::sort(machine->gpus.begin(), machine->gpus.end(), [](const Gpu& a, const Gpu& b) {
    return std::pair(a.vendor, a.pci_address) < std::pair(b.vendor, b.pci_address);
  });
}

void ReadXmlNics(hwloc_topology_t topology, Machine* machine) {
  hwloc_obj_t device = nullptr;
  while ((device = hwloc_get_next_osdev(topology, device)) != nullptr) {
    const hwloc_obj_osdev_type_t type = device->attr->osdev.type;
    const bool rdma = type == HWLOC_OBJ_OSDEV_OPENFABRICS;
    if ((!rdma && type != HWLOC_OBJ_OSDEV_NETWORK) || device->name == nullptr) continue;
    const std::string path = PathOf(device);
    if (path.empty()) continue;
    auto nic = std::find_if(machine->nics.begin(), machine->nics.end(),
                            [&](const Nic& other) { return other.pci_path == path; });
    if (nic == machine->nics.end()) nic = machine->nics.insert(nic, Nic());
    nic->rdma |= rdma;
    nic->up = true;  // the file doesn't say
    (rdma ? nic->name : nic->interface) = device->name;
    if (!nic->rdma) nic->name = nic->interface;
    nic->pci_path = path;
    nic->pci_address = PciAddressOf(path);
    nic->numa_node = NumaNodeOf(topology, device);
  }
  std::sort(machine->nics.begin(), machine->nics.end(),
            [](const Nic& a, const Nic& b) { return a.name < b.name; });
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
  if (access(path.c_str(), R_OK) != 0) {
    return Error::NotFound(path + ": " + std::generic_category().message(errno));
  }
  const Topology topology = Load("/", path);
  if (topology == nullptr) return Error::Invalid(path + " is not a topology that hwloc can read");
  Machine machine;
  ReadCpusAndMemory(topology.get(), &machine);
  ReadXmlGpus(topology.get(), &machine);
  ReadXmlNics(topology.get(), &machine);
  FindSwitches(&machine);
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
  ReadCpusAndMemory(topology.get(), &machine);

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
  machine.nics = DiscoverNics(root);
  FindSwitches(&machine);
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
