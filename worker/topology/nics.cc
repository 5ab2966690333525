#include "worker/topology/nics.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <set>
#include <system_error>

#include "base/folder.h"
#include "base/text/ascii.h"
#include "worker/topology/pci_path.h"
#include "worker/topology/small_file.h"

namespace lockstep::topology {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> Names(const std::string& folder) {
  std::vector<std::string> names;
  // A folder that is not there has none.
  ForEachEntry(folder, [&names](const fs::directory_entry& entry) {
    names.push_back(entry.path().filename().string());
  });
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

// The RDMA devices that a process can open. sysfs shows a container all of the host's.
std::set<std::string> OpenableDevices(const std::string& root) {
  std::set<std::string> devices;
  const std::string verbs = root + "/sys/class/infiniband_verbs/";
  const std::string openable = root + "/dev/infiniband/";
  for (const std::string& file : Names(verbs)) {
    std::error_code ignored;
    if (!fs::exists(openable + file, ignored)) continue;
    devices.insert(ReadSmallFile(verbs + file + "/ibdev").value_or(""));
  }
  return devices;
}

// Some port of this RDMA device is active.
bool IsActive(const fs::path& device) {
  const fs::path ports = device / "ports";
  const std::vector<std::string> names = Names(ports);
  return std::any_of(names.begin(), names.end(), [&ports](const std::string& port) {
    const std::string state = ReadSmallFile(ports / port / "state").value_or("");
    return state.find("ACTIVE") != std::string::npos;
  });
}

bool IsUsable(const Nic& nic) { return nic.rdma && nic.up; }

// Those that are up, loopback left out, where each of them may reach the other machines: there is
// one, or all are in one IPv4 network.
std::vector<std::string> SocketInterfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  std::set<std::string> names;
  std::set<std::string> with_address;
  std::set<uint32_t> networks;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    const bool up = (entry->ifa_flags & IFF_UP) != 0;
    const bool loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
    if (!up || loopback) continue;
    names.insert(entry->ifa_name);
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET) continue;
    with_address.insert(entry->ifa_name);
    sockaddr_in address{};
    sockaddr_in mask{};
    std::memcpy(&address, entry->ifa_addr, sizeof address);
    std::memcpy(&mask, entry->ifa_netmask, sizeof mask);
    networks.insert(address.sin_addr.s_addr & mask.sin_addr.s_addr);
  }
  freeifaddrs(list);
  if (names.size() > 1 && (networks.size() != 1 || with_address != names)) return {};
  return {names.begin(), names.end()};
}

}  // namespace

std::vector<Nic> DiscoverNics(const std::string& root) {
  std::vector<Nic> nics;
  const std::string rdma = root + "/sys/class/infiniband/";
  const std::set<std::string> openable = OpenableDevices(root);
  for (const std::string& name : Names(rdma)) {
    if (!openable.contains(name)) continue;
    Nic nic = ReadNic(rdma + name, name);
    nic.rdma = true;
    const std::vector<std::string> interfaces = Names(rdma + name + "/device/net");
    if (!interfaces.empty()) nic.interface = interfaces.front();
    nic.up = IsActive(rdma + name);
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

std::vector<ActiveRdma> ActiveRdmaDevices(const std::string& root) {
  constexpr const char* kAmazon = "0x1d0f";  // PCI's number of the vendor
  std::vector<ActiveRdma> devices;
  const std::string rdma = root + "/sys/class/infiniband/";
  const std::set<std::string> openable = OpenableDevices(root);
  for (const std::string& name : Names(rdma)) {
    if (!IsActive(rdma + name)) continue;
    const std::string vendor = ReadSmallFile(rdma + name + "/device/vendor").value_or("");
    devices.push_back({name, openable.contains(name), vendor == kAmazon});
  }
  return devices;
}

std::vector<Nic> NearNics(const std::vector<Nic>& nics,
                          const std::vector<std::vector<std::string>>& near) {
  std::set<std::string> names;
  for (const std::vector<std::string>& own : near) {
    if (own.empty()) return nics;
    names.insert(own.begin(), own.end());
  }
  std::vector<Nic> some;
  std::copy_if(nics.begin(), nics.end(), std::back_inserter(some),
               [&](const Nic& nic) { return names.contains(nic.name); });
  return some;
}

std::string RdmaDevices(const std::vector<Nic>& nics, const std::vector<Nic>& near) {
  if (std::count_if(nics.begin(), nics.end(), IsUsable) ==
      std::count_if(near.begin(), near.end(), IsUsable)) {
    return "";
  }
  std::string devices;
  for (const Nic& nic : near) {
    if (IsUsable(nic)) devices += (devices.empty() ? "=" : ",") + nic.name;
  }
  return devices;
}

std::string OnlyInterface(const std::vector<std::string>& interfaces,
                          const std::vector<Nic>& near) {
  std::string only;
  for (const Nic& nic : near) {
    if (std::find(interfaces.begin(), interfaces.end(), nic.interface) == interfaces.end())
      continue;
    if (!only.empty()) return "";
    only = nic.interface;
  }
  return only;
}

std::string SocketInterface(const std::vector<Nic>& near) {
  const std::vector<std::string> interfaces = SocketInterfaces();
  return interfaces.size() == 1 ? interfaces.front() : OnlyInterface(interfaces, near);
}

}  // namespace lockstep::topology
