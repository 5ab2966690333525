// Machine: the topology of one machine, as needed to place processes, and the part of it that this
// container may use. Plain data: the planner (binding_plan.h) takes it, tests build it by hand.
//
//   Result<Machine> machine = Discover();
//   if (!machine.ok()) return machine.error();
//   BindingPlan plan = PlanBinding(*machine, {.mode = Bind::kNode, .processes = 4});
//
// In a container /sys shows the whole host; what the container may use stands in
// /proc/self/status, and the GPUs it was given are those with a device file in /dev.
#ifndef LOCKSTEP_WORKER_TOPOLOGY_TOPOLOGY_H_
#define LOCKSTEP_WORKER_TOPOLOGY_TOPOLOGY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/text/index_list.h"
#include "worker/topology/gpus.h"
#include "worker/topology/nics.h"

namespace lockstep::topology {

struct NumaNode {
  int id = 0;
  IndexList cpus;              // online ones, whether allowed or not
  std::vector<int> distances;  // ACPI SLIT, to each of Machine::numa_nodes in their order; 10 is
                               // the node itself. Empty where the machine doesn't say
  int64_t memory_bytes = 0;    // 0: unknown
  int package = -1;            // Package::id of its CPUs, -1 where unknown or several
};

// A socket.
struct Package {
  int id = 0;
  IndexList cpus;
};

// CPUs under one last-level cache: a core complex, or a whole package.
struct CacheGroup {
  IndexList cpus;
  int64_t bytes = 0;
  int level = 0;  // 3: L3
};

// The online CPUs of one physical core: SMT siblings.
struct Core {
  IndexList cpus;
  int numa_node = -1;  // NumaNode::id, -1 where unknown
};

// A PCIe bridge with several GPUs or network cards below it, which so reach each other without the
// CPU.
struct PciSwitch {
  std::string pci_path;
  std::vector<int> gpus;  // indices into Machine::gpus
  std::vector<int> nics;  // into Machine::nics
};

// One thing known of the machine and where it was read.
struct Fact {
  std::string name;
  std::string source;
};

struct Machine {
  std::vector<NumaNode> numa_nodes;    // those with CPUs, by id
  std::vector<NumaNode> memory_nodes;  // those without (CXL, a GPU's memory), by id: no process is
                                       // on them
  std::vector<Package> packages;       // by id
  std::vector<Core> cores;             // by lowest CPU
  std::vector<CacheGroup> caches;      // by lowest CPU; empty where the machine doesn't say
  std::vector<Gpu> gpus;               // those this container was given, in their driver's order
  std::vector<Nic> nics;               // by name; loopback and virtual ones are none
  std::vector<PciSwitch> switches;     // by path
  IndexList allowed_cpus;              // online and within the cpuset; never empty after Discover
  IndexList allowed_mems;              // NUMA nodes that memory may come from; empty: unknown
  double cpu_quota = 0;                // CPUs' worth of time the cgroup allows; 0: no limit
  std::vector<Fact> facts;

  // Position in numa_nodes, -1 if there is no such node.
  int FindNumaNode(int id) const;
};

// One line for a log: "2 packages, 2 NUMA nodes, 64 cores, 8 GPUs, 8 network cards".
std::string Summary(const Machine& machine);

// Reads the machine below `root`, which holds sys/, proc/ and dev/ ("/" for the machine itself).
// Unavailable when no CPU can be found that this process may use.
//
// hwloc takes its root from environment variables, which are set during the call and put back:
// call it while the program has one thread.
Result<Machine> Discover(const std::string& root = "/");

// Another machine, of hwloc's XML (`lstopo --of xml`): all its CPUs and memory may be used.
// NotFound where the file can't be read, Invalid for what hwloc doesn't read. It sets the
// environment as Discover does.
Result<Machine> DiscoverXml(const std::string& path);

// A machine of which only the CPUs that this process may use are known, each taken for a core. For
// a container without /sys. `why` becomes a fact.
Machine WithoutTopology(const std::string& why);

}  // namespace lockstep::topology

#endif  // LOCKSTEP_WORKER_TOPOLOGY_TOPOLOGY_H_
