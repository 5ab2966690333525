// The NVIDIA GPUs of a machine, read from sysfs, without a driver library.
#ifndef LOCKSTEP_WORKER_TOPOLOGY_GPUS_H_
#define LOCKSTEP_WORKER_TOPOLOGY_GPUS_H_

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::topology {

struct Gpu {
  std::string pci_address;  // "0000:17:00.0"
  int numa_node = -1;       // -1: the machine doesn't say (most virtual machines)
  int minor = -1;           // of /dev/nvidia<minor>
  std::string uuid;         // "GPU-8a3e...", empty where the driver doesn't show it
};

// PCI devices of vendor 0x10de and class display (0x0300) or 3D controller (0x0302) below `root`,
// that have their device file in dev/: a container sees the PCI devices of the whole host, but
// only the device files of the GPUs it was given. In PCI order, which is CUDA's order on machines
// with GPUs of one kind. `source` receives what was read.
std::vector<Gpu> DiscoverGpus(const std::string& root, std::string* source);

}  // namespace lockstep::topology

#endif  // LOCKSTEP_WORKER_TOPOLOGY_GPUS_H_
