#include "worker/topology/gpus.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/text/ascii.h"
#include "worker/topology/small_file.h"

namespace lockstep::topology {
namespace {

namespace fs = std::filesystem;

bool IsGpu(const std::string& device) {
  if (ReadSmallFile(device + "/vendor") != "0x10de") return false;
  const std::string device_class = ReadSmallFile(device + "/class").value_or("");
  return device_class.starts_with("0x0300") || device_class.starts_with("0x0302");
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

}  // namespace

std::vector<Gpu> DiscoverGpus(const std::string& root, std::string* source) {
  const std::string devices = root + "/sys/bus/pci/devices";
  std::vector<std::string> addresses;
  std::error_code ignored;  // no PCI bus: no GPUs
  for (const fs::directory_entry& entry : fs::directory_iterator(devices, ignored)) {
    if (IsGpu(entry.path().string())) addresses.push_back(entry.path().filename().string());
  }
  std::sort(addresses.begin(), addresses.end());

  std::vector<Gpu> gpus;
  bool guessed_minor = false;
  for (size_t i = 0; i < addresses.size(); ++i) {
    Gpu gpu;
    gpu.pci_address = addresses[i];
    gpu.numa_node =
        ParseNumber<int>(ReadSmallFile(devices + "/" + gpu.pci_address + "/numa_node").value_or(""))
            .value_or(-1);
    const std::optional<std::string> information =
        ReadSmallFile(root + "/proc/driver/nvidia/gpus/" + gpu.pci_address + "/information");
    const std::optional<int> minor =
        ParseNumber<int>(Field(information.value_or(""), "Device Minor"));
    gpu.uuid = Field(information.value_or(""), "GPU UUID");
    guessed_minor |= !minor;
    gpu.minor = minor.value_or(static_cast<int>(i));  // the driver numbers them in PCI order
    if (fs::exists(root + "/dev/nvidia" + std::to_string(gpu.minor), ignored)) gpus.push_back(gpu);
  }
  *source = "sysfs: " + std::to_string(addresses.size()) + " on the PCI bus, " +
            std::to_string(gpus.size()) + " with a device file";
  if (guessed_minor) *source += " (device numbers taken in PCI order)";
  return gpus;
}

}  // namespace lockstep::topology
