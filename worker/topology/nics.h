// The network cards of a machine, read from sysfs.
#ifndef LOCKSTEP_WORKER_TOPOLOGY_NICS_H_
#define LOCKSTEP_WORKER_TOPOLOGY_NICS_H_

#include <string>
#include <vector>

namespace lockstep::topology {

// A network card: an RDMA device, or an interface without one.
struct Nic {
  std::string name;       // "mlx5_0", as NCCL_IB_HCA names it; of an interface "eth0"
  std::string interface;  // "ib0", as NCCL_SOCKET_IFNAME names it; "": none
  bool rdma = false;
  bool up = false;  // the interface, or some port of the RDMA device
  int numa_node = -1;
  std::string pci_address;
  std::string pci_path;
};

// What sys/class/infiniband and sys/class/net below `root` show: in a container those of its own
// network namespace. Interfaces without a device, as veth and loopback, are none. By name.
std::vector<Nic> DiscoverNics(const std::string& root);

}  // namespace lockstep::topology

#endif  // LOCKSTEP_WORKER_TOPOLOGY_NICS_H_
