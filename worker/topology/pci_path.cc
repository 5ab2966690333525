#include "worker/topology/pci_path.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace lockstep::topology {

bool IsPciAddress(std::string_view text) {
  constexpr std::string_view kForm = "xxxx:xx:xx.x";
  if (text.size() < kForm.size()) return false;
  // A domain may have more digits than four.
  const size_t extra = text.size() - kForm.size();
  for (size_t i = 0; i < text.size(); ++i) {
    const char form = i < extra ? 'x' : kForm[i - extra];
    const bool hex = std::string_view("0123456789abcdefABCDEF").find(text[i]) != text.npos;
    if (form == 'x' ? !hex : text[i] != form) return false;
  }
  return true;
}

std::string PciPathOf(const std::string& folder) {
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(folder, error);
  if (error) return "";
  std::string path;
  std::string to_device;
  for (const std::filesystem::path& part : real) {
    const std::string step = part.string();
    if (path.empty() && !step.starts_with("pci0") && !step.starts_with("pci1")) continue;
    path += (path.empty() ? "" : "/") + step;
    if (IsPciAddress(step)) to_device = path;
  }
  return to_device;
}

std::string PciAddressOf(std::string_view path) {
  const size_t slash = path.rfind('/');
  return std::string(slash == path.npos ? path : path.substr(slash + 1));
}

size_t CommonPath(std::string_view a, std::string_view b) {
  size_t steps = 0;
  while (!a.empty() && !b.empty()) {
    const size_t end_a = std::min(a.find('/'), a.size());
    const size_t end_b = std::min(b.find('/'), b.size());
    if (a.substr(0, end_a) != b.substr(0, end_b)) break;
    ++steps;
    a.remove_prefix(std::min(end_a + 1, a.size()));
    b.remove_prefix(std::min(end_b + 1, b.size()));
  }
  return steps;
}

}  // namespace lockstep::topology
