// Machine: the topology of one machine, as needed to place processes, and the part of it that this
// container may use. Plain data: the planner (binding_plan.h) takes it, tests build it by hand.
//
//   Result<Machine> machine = Discover();
//   if (!machine.ok()) return machine.error();
//   BindingPlan plan = PlanBinding(*machine, Bind::kNode, MemoryPolicy::kPreferred, 4);
//
// In a container /sys shows the whole host; what the container may use stands in
// /proc/self/status, and the GPUs it was given are those with a device file in /dev.
#ifndef LOCKSTEP_WORKER_TOPOLOGY_TOPOLOGY_H_
#define LOCKSTEP_WORKER_TOPOLOGY_TOPOLOGY_H_

#include <string>
#include <vector>

#include "base/result.h"
#include "base/text/index_list.h"
#include "worker/topology/gpus.h"

namespace lockstep::topology {

// A NUMA node with CPUs. Nodes without (CXL memory, the memory of a GPU) are left out: no process
// can be near them.
struct NumaNode {
  int id = 0;
  IndexList cpus;              // online ones, whether allowed or not
  std::vector<int> distances;  // ACPI SLIT, to each of Machine::numa_nodes in their order; 10 is
                               // the node itself. Empty where the machine doesn't say
};

// The online CPUs of one physical core: SMT siblings.
struct Core {
  IndexList cpus;
  int numa_node = -1;  // NumaNode::id, -1 where unknown
};

// One thing known of the machine and where it was read.
struct Fact {
  std::string name;
  std::string source;
};

struct Machine {
  std::vector<NumaNode> numa_nodes;  // by id
  std::vector<Core> cores;           // by lowest CPU
  std::vector<Gpu> gpus;             // those this container was given, in PCI order
  IndexList allowed_cpus;            // online and within the cpuset; never empty after Discover
  IndexList allowed_mems;            // NUMA nodes that memory may come from; empty: unknown
  double cpu_quota = 0;              // CPUs' worth of time the cgroup allows; 0: no limit
  std::vector<Fact> facts;

  // Position in numa_nodes, -1 if there is no such node.
  int FindNumaNode(int id) const;
};

// Reads the machine below `root`, which holds sys/, proc/ and dev/ ("/" for the machine itself).
// Unavailable when no CPU can be found that this process may use.
//
// hwloc takes its root from environment variables, which are set during the call and put back:
// call it while the program has one thread.
Result<Machine> Discover(const std::string& root = "/");

// A machine of which only the CPUs that this process may use are known, each taken for a core. For
// a container without /sys. `why` becomes a fact.
Machine WithoutTopology(const std::string& why);

}  // namespace lockstep::topology

#endif  // LOCKSTEP_WORKER_TOPOLOGY_TOPOLOGY_H_
