// Where a PCI device hangs: the way from its root complex over bridges to itself,
// "pci0000:16/0000:16:01.0/0000:17:00.0", as sysfs names it.
#ifndef LOCKSTEP_WORKER_TOPOLOGY_PCI_PATH_H_
#define LOCKSTEP_WORKER_TOPOLOGY_PCI_PATH_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep::topology {

// "0000:17:00.0"
bool IsPciAddress(std::string_view text);

// Of a device's folder below sys/devices, or of a link to it, up to the last PCI device on the way;
// "" for what is on no PCI bus.
std::string PciPathOf(const std::string& folder);

// The device's own address: the last of the path.
std::string PciAddressOf(std::string_view path);

// How many steps two paths have in common: 0: not even the root complex.
size_t CommonPath(std::string_view a, std::string_view b);

}  // namespace lockstep::topology

#endif  // LOCKSTEP_WORKER_TOPOLOGY_PCI_PATH_H_
