// The GPUs of a machine, read from sysfs, without a driver library.
#ifndef LOCKSTEP_WORKER_TOPOLOGY_GPUS_H_
#define LOCKSTEP_WORKER_TOPOLOGY_GPUS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::topology {

enum class GpuVendor : uint8_t { kNvidia, kAmd };

struct Gpu {
  std::string pci_address;  // "0000:17:00.0"
  int numa_node = -1;       // -1: the machine doesn't say (most virtual machines)
  int minor = -1;           // of /dev/nvidia<minor>; for AMD of /dev/dri/renderD<minor>
  std::string uuid;         // "GPU-8a3e...", empty where the driver doesn't show it (yet)
  GpuVendor vendor = GpuVendor::kNvidia;
  std::string pci_path;  // bridges and device from the root: "pci0000:16/0000:16:01.0/0000:17:00.0"
};

// Of NVIDIA, PCI devices below `root` of class display (0x0300) or 3D controller (0x0302), in PCI
// order, which is CUDA's on machines with GPUs of one kind; then of AMD those that KFD shows, in
// its order, which is ROCm's. Only those with their device file in dev/: a container sees the PCI
// devices of the whole host, but only the device files of the GPUs it was given. `source` receives
// what was read.
std::vector<Gpu> DiscoverGpus(const std::string& root, std::string* source);

}  // namespace lockstep::topology

#endif  // LOCKSTEP_WORKER_TOPOLOGY_GPUS_H_
