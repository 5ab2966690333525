#include "worker/topology/nics.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/text/ascii.h"
#include "worker/topology/pci_path.h"
#include "worker/topology/small_file.h"

namespace lockstep::topology {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> Names(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code ignored;  // not there: none
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Nic ReadNic(const std::string& folder, const std::string& name) {
  Nic nic;
  nic.name = name;
  nic.pci_path = PciPathOf(folder + "/device");
  nic.pci_address = PciAddressOf(nic.pci_path);
  nic.numa_node =
      ParseNumber<int>(ReadSmallFile(folder + "/device/numa_node").value_or("")).value_or(-1);
  return nic;
}

}  // namespace

std::vector<Nic> DiscoverNics(const std::string& root) {
  std::vector<Nic> nics;
  const std::string rdma = root + "/sys/class/infiniband/";
  for (const std::string& name : Names(rdma)) {
    Nic nic = ReadNic(rdma + name, name);
    nic.rdma = true;
    const std::vector<std::string> interfaces = Names(rdma + name + "/device/net");
    if (!interfaces.empty()) nic.interface = interfaces.front();
    const fs::path ports = rdma + name + "/ports";
    for (const std::string& port : Names(ports)) {
      const std::string state = ReadSmallFile(ports / port / "state").value_or("");
      nic.up |= state.find("ACTIVE") != std::string::npos;
    }
    nics.push_back(std::move(nic));
  }
  const std::string net = root + "/sys/class/net/";
  for (const std::string& name : Names(net)) {
    std::error_code ignored;
    if (!fs::exists(net + name + "/device", ignored)) continue;
    Nic nic = ReadNic(net + name, name);
    const bool known = std::any_of(nics.begin(), nics.end(), [&](const Nic& other) {
      return other.interface == name ||
             (other.rdma && !nic.pci_path.empty() && other.pci_path == nic.pci_path);
    });
    if (known) continue;
    nic.interface = name;
    nic.up = ReadSmallFile(net + name + "/operstate") == "up";
    nics.push_back(std::move(nic));
  }
  std::sort(nics.begin(), nics.end(), [](const Nic& a, const Nic& b) { return a.name < b.name; });
  return nics;
}

}  // namespace lockstep::topology
