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
// network namespace, and of its RDMA devices those that it may open: by their files in
// dev/infiniband. Interfaces without a device, as veth and loopback, are none. By name.
std::vector<Nic> DiscoverNics(const std::string& root);

// An RDMA device with an active port.
struct ActiveRdma {
  std::string name;       // "mlx5_0"
  bool openable = false;  // by its file in dev/infiniband
  bool efa = false;       // Amazon's Elastic Fabric Adapter, which NCCL uses by a plugin alone
};
// Those of the host, in a container too. By name.
std::vector<ActiveRdma> ActiveRdmaDevices(const std::string& root);

// Those near some process of a machine; `near`: of each process the Nic::names. All where a process
// has none, for it isn't known which are near to it.
std::vector<Nic> NearNics(const std::vector<Nic>& nics,
                          const std::vector<std::vector<std::string>>& near);

// What NCCL is told of a machine's cards is the same for all its processes: each plans the rings of
// them all, by the cards that it knows.
//
// The RDMA devices of `near`, as NCCL_IB_HCA names them; "" where none of `nics` is left out.
std::string RdmaDevices(const std::vector<Nic>& nics, const std::vector<Nic>& near);
// The only one of `interfaces` with a card in `near`; "" where there are none or several.
std::string OnlyInterface(const std::vector<std::string>& interfaces, const std::vector<Nic>& near);
// The interface that reaches the other machines, for NCCL and Gloo, which guess wrongly on machines
// with several. It is not guessed here either: there is one, or it is the only near one of several
// in one IPv4 network; "" otherwise.
std::string SocketInterface(const std::vector<Nic>& near);

}  // namespace lockstep::topology

#endif  // LOCKSTEP_WORKER_TOPOLOGY_NICS_H_
