#include "worker/topology/gpus.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "base/folder.h"
#include "base/text/ascii.h"
#include "worker/topology/pci_path.h"
#include "worker/topology/small_file.h"

namespace lockstep::topology {
namespace {

namespace fs = std::filesystem;

bool IsNvidiaGpu(const std::string& device) {
  if (ReadSmallFile(device + "/vendor") != "0x10de") return false;
  const std::string device_class = ReadSmallFile(device + "/class").value_or("");
  return device_class.starts_with("0x0300") || device_class.starts_with("0x0302");
}

int NumaNodeOf(const std::string& device) {
  return ParseNumber<int>(ReadSmallFile(device + "/numa_node").value_or("")).value_or(-1);
}

// The value of a "Name: \t value" line of /proc/driver/nvidia/gpus/<address>/information.
std::string Field(std::string_view information, std::string_view name) {
  const size_t at = information.find(name);
  if (at == std::string_view::npos) return "";
  const std::string_view line = information.substr(at + name.size());
  const std::string_view value = line.substr(0, line.find('\n'));
  const size_t first = value.find_first_not_of(": \t");
  return first == std::string_view::npos ? "" : std::string(value.substr(first));
}

// The number behind "name " at the start of a line of a KFD node's properties.
std::optional<uint64_t> Property(const std::string& properties, const std::string& name) {
  std::string_view rest = properties;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (!line.starts_with(name + " ")) continue;
    return ParseNumber<uint64_t>(line.substr(name.size() + 1));
  }
  return std::nullopt;
}

// "0000:c1:00.0" of KFD's domain and location_id, which is bus << 8 | device << 3 | function.
std::string AddressOfLocation(uint64_t domain, uint64_t location) {
  std::array<char, 32> text;
  snprintf(text.data(), text.size(), "%04x:%02x:%02x.%x", static_cast<unsigned>(domain),
           static_cast<unsigned>(location >> 8 & 0xff), static_cast<unsigned>(location >> 3 & 0x1f),
           static_cast<unsigned>(location & 7));
  return text.data();
}

// KFD's nodes with SIMD units are the GPUs; the others are CPUs. Those that a container was not
// given can't be read there.
std::vector<Gpu> DiscoverAmd(const std::string& root, std::string* source) {
  const std::string nodes = root + "/sys/class/kfd/kfd/topology/nodes/";
  std::error_code ignored;
  std::vector<Gpu> gpus;
  int seen = 0;
  if (!fs::exists(root + "/dev/kfd", ignored)) return gpus;
  for (int node = 0; fs::exists(nodes + std::to_string(node), ignored); ++node) {
    const std::string properties =
        ReadSmallFile(nodes + std::to_string(node) + "/properties").value_or("");
    if (Property(properties, "simd_count").value_or(0) == 0) continue;
    ++seen;
    Gpu gpu;
    gpu.vendor = GpuVendor::kAmd;
    gpu.minor = static_cast<int>(Property(properties, "drm_render_minor").value_or(0));
    if (!fs::exists(root + "/dev/dri/renderD" + std::to_string(gpu.minor), ignored)) continue;
    gpu.pci_address = AddressOfLocation(Property(properties, "domain").value_or(0),
                                        Property(properties, "location_id").value_or(0));
    if (const uint64_t id = Property(properties, "unique_id").value_or(0); id != 0) {
      std::array<char, 32> uuid;
      snprintf(uuid.data(), uuid.size(), "GPU-%016llx", static_cast<unsigned long long>(id));
      gpu.uuid = uuid.data();
    }
    const std::string device = root + "/sys/bus/pci/devices/" + gpu.pci_address;
    gpu.numa_node = NumaNodeOf(device);
    gpu.pci_path = PciPathOf(device);
    gpus.push_back(std::move(gpu));
  }
  if (seen > 0) {
    *source += "; KFD: " + std::to_string(seen) + " of AMD, " + std::to_string(gpus.size()) +
               " with a device file";
  }
  return gpus;
}

}  // namespace

std::vector<Gpu> DiscoverGpus(const std::string& root, std::string* source) {
  const std::string devices = root + "/sys/bus/pci/devices";
  std::vector<std::string> addresses;
  // No PCI bus: no GPUs.
  ForEachEntry(devices, [&addresses](const fs::directory_entry& entry) {
    if (IsNvidiaGpu(entry.path().string())) addresses.push_back(entry.path().filename().string());
  });
  std::sort(addresses.begin(), addresses.end());
  std::error_code ignored;

  std::vector<Gpu> gpus;
  bool guessed_minor = false;
  for (size_t i = 0; i < addresses.size(); ++i) {
    Gpu gpu;
    gpu.pci_address = addresses[i];
    gpu.numa_node = NumaNodeOf(devices + "/" + gpu.pci_address);
    gpu.pci_path = PciPathOf(devices + "/" + gpu.pci_address);
    const std::optional<std::string> information =
        ReadSmallFile(root + "/proc/driver/nvidia/gpus/" + gpu.pci_address + "/information");
    const std::optional<int> minor =
        ParseNumber<int>(Field(information.value_or(""), "Device Minor"));
    gpu.uuid = Field(information.value_or(""), "GPU UUID");
    // "GPU-????????-..." until something has used the GPU.
    if (gpu.uuid.find('?') != std::string::npos) gpu.uuid.clear();
    guessed_minor |= !minor;
    gpu.minor = minor.value_or(static_cast<int>(i));  // the driver numbers them in PCI order
    if (fs::exists(root + "/dev/nvidia" + std::to_string(gpu.minor), ignored)) gpus.push_back(gpu);
  }
  *source = "sysfs: " + std::to_string(addresses.size()) + " on the PCI bus, " +
            std::to_string(gpus.size()) + " with a device file";
  if (guessed_minor) *source += " (device numbers taken in PCI order)";
  const std::vector<Gpu> amd = DiscoverAmd(root, source);
  gpus.insert(gpus.end(), amd.begin(), amd.end());
  return gpus;
}

}  // namespace lockstep::topology
