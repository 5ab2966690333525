#include "cli/machine/machine_picture.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "cli/machine/svg.h"
#include "core/text/limited_text.h"

namespace lockstep::cli {
namespace {

using topology::Machine;

constexpr size_t kLineWidth = 100;

bool Within(const IndexList& part, const IndexList& whole) {
  return Intersect(part, whole).size() == part.size();
}

std::string Size(int64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto number = static_cast<double>(bytes);
  size_t unit = 0;
  for (; number >= 1024 && unit + 1 < kUnits.size(); ++unit) number /= 1024;
  std::array<char, 32> text{};
  snprintf(text.data(), text.size(), "%.*f %s", number < 10 && unit > 0 ? 1 : 0, number,
           kUnits.at(unit));
  return text.data();
}

// Where a device hangs: the nearest bridge that Machine::switches names; -1: none.
int SwitchOf(const Machine& machine, int device, std::vector<int> topology::PciSwitch::* list) {
  int nearest = -1;
  for (size_t i = 0; i < machine.switches.size(); ++i) {
    const topology::PciSwitch& bridge = machine.switches[i];
    if (std::find((bridge.*list).begin(), (bridge.*list).end(), device) == (bridge.*list).end()) {
      continue;
    }
    const bool nearer =
        nearest < 0 ||
        bridge.pci_path.size() > machine.switches[static_cast<size_t>(nearest)].pci_path.size();
    if (nearer) nearest = static_cast<int>(i);
  }
  return nearest;
}

class Builder {
 public:
  Builder(const Machine& machine, const topology::BindingPlan* plan)
      : machine_(machine), plan_(plan), drawn_(machine.cores.size()) {}

  Part Build() {
    Part root{.kind = Part::Kind::kMachine,
              .text = topology::Summary(machine_),
              .cores = {},
              .parts = {}};
    for (const topology::Package& package : machine_.packages) {
      Part part{.kind = Part::Kind::kPackage,
                .text = "package " + std::to_string(package.id),
                .cores = {},
                .parts = {}};
      for (const topology::NumaNode& node : machine_.numa_nodes) {
        if (node.package == package.id) part.parts.push_back(NodePart(node));
      }
      AddCores(package.cpus, &part);
      if (!part.parts.empty()) root.parts.push_back(std::move(part));
    }
    for (const topology::NumaNode& node : machine_.numa_nodes) {
      const bool placed = std::any_of(machine_.packages.begin(), machine_.packages.end(),
                                      [&](const auto& p) { return p.id == node.package; });
      if (!placed) root.parts.push_back(NodePart(node));
    }
    AddCores(machine_.allowed_cpus, &root);
    for (const topology::NumaNode& node : machine_.memory_nodes) {
      Part part = NodePart(node);
      part.text += ", no CPUs";
      root.parts.push_back(std::move(part));
    }
    AddDevices(-1, &root);
    return root;
  }

 private:
  Part NodePart(const topology::NumaNode& node) {
    Part part{.kind = Part::Kind::kNode,
              .text = "NUMA node " + std::to_string(node.id),
              .cores = {},
              .parts = {}};
    if (node.memory_bytes > 0) part.text += "  " + Size(node.memory_bytes);
    if (!node.cpus.empty()) part.text += "  CPUs " + FormatIndexList(node.cpus);
    if (!machine_.allowed_mems.empty() && !Contains(machine_.allowed_mems, node.id)) {
      part.text += "  memory not allowed";
    }
    if (node.distances.size() > 1) {
      part.text += "  distances";
      for (const int distance : node.distances) part.text += " " + std::to_string(distance);
    }
    for (const topology::CacheGroup& cache : machine_.caches) {
      if (cache.cpus.empty() || !Within(cache.cpus, node.cpus)) continue;
      Part group{.kind = Part::Kind::kCache,
                 .text = "L" + std::to_string(cache.level) + "  " + Size(cache.bytes),
                 .cores = {},
                 .parts = {}};
      AddCores(cache.cpus, &group);
      if (!group.parts.empty()) part.parts.push_back(std::move(group));
    }
    AddCores(node.cpus, &part);
    AddDevices(node.id, &part);
    return part;
  }

  // Those within `cpus` that are in no other part yet.
  void AddCores(const IndexList& cpus, Part* into) {
    Part part{.kind = Part::Kind::kCores, .text = "", .cores = {}, .parts = {}};
    for (size_t i = 0; i < machine_.cores.size(); ++i) {
      const topology::Core& core = machine_.cores[i];
      if (drawn_[i] || core.cpus.empty() || !Within(core.cpus, cpus)) continue;
      drawn_[i] = true;
      Part::Cell cell{.text = FormatIndexList(core.cpus),
                      .allowed = Within(core.cpus, machine_.allowed_cpus)};
      for (size_t r = 0; plan_ != nullptr && r < plan_->ranks.size(); ++r) {
        const topology::RankBinding& rank = plan_->ranks[r];
        if (Intersect(core.cpus, rank.cpus).empty()) continue;
        cell.shared = cell.local_rank >= 0;
        if (!cell.shared) cell.local_rank = rank.local_rank;
      }
      part.cores.push_back(std::move(cell));
    }
    if (!part.cores.empty()) into->parts.push_back(std::move(part));
  }

  std::string GpuText(size_t index) const {
    const topology::Gpu& gpu = machine_.gpus[index];
    std::string text = "GPU " + std::to_string(index) + "  " +
                       (gpu.vendor == topology::GpuVendor::kAmd ? "AMD" : "NVIDIA");
    if (!gpu.pci_address.empty()) text += "  " + gpu.pci_address;
    for (size_t r = 0; plan_ != nullptr && r < plan_->ranks.size(); ++r) {
      const std::vector<int>& gpus = plan_->ranks[r].gpus;
      if (std::find(gpus.begin(), gpus.end(), static_cast<int>(index)) != gpus.end()) {
        text += "  r" + std::to_string(plan_->ranks[r].local_rank);
      }
    }
    return text;
  }

  static std::string NicText(const topology::Nic& nic) {
    std::string text = "network card " + nic.name;
    if (!nic.interface.empty() && nic.interface != nic.name) text += " (" + nic.interface + ")";
    if (nic.rdma) text += "  RDMA";
    if (!nic.pci_address.empty()) text += "  " + nic.pci_address;
    if (!nic.up) text += "  down";
    return text;
  }

  // The GPUs and network cards of a node, those of one PCIe switch together; -1: of no known node.
  void AddDevices(int node, Part* into) {
    std::vector<Part> bridges(machine_.switches.size());
    std::vector<Part> alone;
    const auto add = [&](int of_node, std::string text, int bridge) {
      const bool known = machine_.FindNumaNode(of_node) >= 0;
      if (known ? of_node != node : node >= 0) return;
      Part part{.kind = Part::Kind::kDevice, .text = std::move(text), .cores = {}, .parts = {}};
      if (node < 0 && !machine_.numa_nodes.empty()) part.text += "  its node is unknown";
      (bridge < 0 ? alone : bridges[static_cast<size_t>(bridge)].parts).push_back(std::move(part));
    };
    for (size_t i = 0; i < machine_.gpus.size(); ++i) {
      add(machine_.gpus[i].numa_node, GpuText(i),
          SwitchOf(machine_, static_cast<int>(i), &topology::PciSwitch::gpus));
    }
    for (size_t i = 0; i < machine_.nics.size(); ++i) {
      add(machine_.nics[i].numa_node, NicText(machine_.nics[i]),
          SwitchOf(machine_, static_cast<int>(i), &topology::PciSwitch::nics));
    }
    for (size_t i = 0; i < bridges.size(); ++i) {
      if (bridges[i].parts.empty()) continue;
      const std::string& path = machine_.switches[i].pci_path;
      bridges[i].kind = Part::Kind::kSwitch;
      bridges[i].text = "PCIe switch " + path.substr(path.rfind('/') + 1);
      into->parts.push_back(std::move(bridges[i]));
    }
    std::move(alone.begin(), alone.end(), std::back_inserter(into->parts));
  }

  const Machine& machine_;
  const topology::BindingPlan* plan_;
  std::vector<bool> drawn_;  // by core
};

std::string CellText(const Part::Cell& cell) {
  std::string text = cell.text;
  if (cell.local_rank >= 0) text += ":r" + std::to_string(cell.local_rank);
  if (cell.shared) text += "+";
  return cell.allowed ? "[" + text + "]" : "(" + text + ")";
}

void AddText(const Part& part, const std::string& first, const std::string& next,
             std::string* out) {
  if (part.kind == Part::Kind::kCores) {
    std::string line = first;
    for (const Part::Cell& cell : part.cores) {
      if (line.size() + CellText(cell).size() > kLineWidth) {
        *out += line + "\n";
        line = next;
      }
      line += CellText(cell);
    }
    *out += line + "\n";
    return;
  }
  *out += first + core::OneLine(part.text) + "\n";
  for (size_t i = 0; i < part.parts.size(); ++i) {
    const bool last = i + 1 == part.parts.size();
    AddText(part.parts[i], next + (last ? "└─ " : "├─ "), next + (last ? "   " : "│  "), out);
  }
}

// --- SVG ---

constexpr double kGap = 8;
constexpr double kTitle = 22;
constexpr double kCellHeight = 24;
constexpr std::array<const char*, 8> kRankColours = {"#a6cee3", "#b2df8a", "#fdbf6f", "#cab2d6",
                                                     "#fb9a99", "#ffff99", "#8dd3c7", "#d9d9d9"};

struct Extent {
  double width = 0, height = 0;
};

struct Look {
  const char* fill;
  const char* stroke;
};
Look LookOf(Part::Kind kind) {
  switch (kind) {
    case Part::Kind::kMachine:
      return {"#ffffff", "#ffffff"};
    case Part::Kind::kPackage:
      return {"#f6f8fa", "#57606a"};
    case Part::Kind::kNode:
      return {"#eaf2fb", "#2b7ac4"};
    case Part::Kind::kCache:
      return {"#ffffff", "#8c959f"};
    case Part::Kind::kSwitch:
      return {"#fff8e6", "#bf8700"};
    case Part::Kind::kCores:
    case Part::Kind::kDevice:
      break;
  }
  return {"#e6f4ea", "#2da44e"};
}

// Packages and nodes stand side by side, everything else below each other.
bool SideBySide(const Part& part) {
  return part.kind == Part::Kind::kMachine || part.kind == Part::Kind::kPackage;
}

double CellWidth(const Part& part) {
  double widest = 36;
  for (const Part::Cell& cell : part.cores) {
    widest = std::max(widest, TextWidth(CellText(cell), 11) - 6);
  }
  return widest;
}

size_t Columns(const Part& part) {
  return std::clamp<size_t>(static_cast<size_t>(std::ceil(std::sqrt(part.cores.size()))), 4, 16);
}

// Draws the part with its left upper corner at (x, y), or with nullptr only says how large it is.
Extent Draw(const Part& part, double x, double y, Svg* svg) {
  if (part.kind == Part::Kind::kCores) {
    const double width = CellWidth(part);
    const size_t columns = std::min(Columns(part), part.cores.size());
    for (size_t i = 0; svg != nullptr && i < part.cores.size(); ++i) {
      const Part::Cell& cell = part.cores[i];
      const double left = x + static_cast<double>(i % columns) * (width + 4);
      const size_t line = i / columns;
      const double top = y + static_cast<double>(line) * (kCellHeight + 4);
      const char* fill =
          !cell.allowed ? "#eeeeee"
          : cell.local_rank >= 0
              ? kRankColours.at(static_cast<size_t>(cell.local_rank) % kRankColours.size())
              : "#ffffff";
      svg->Box(left, top, width, kCellHeight, fill, "#8c959f");
      const std::string text = CellText(cell);
      svg->Text(left + width / 2, top + 16, text.substr(1, text.size() - 2), 11, true,
                cell.allowed ? "#1f2328" : "#8c959f");
    }
    const size_t rows = (part.cores.size() + columns - 1) / columns;
    return {static_cast<double>(columns) * (width + 4) - 4,
            static_cast<double>(rows) * (kCellHeight + 4) - 4};
  }
  Extent inner{TextWidth(part.text, 12), 0};
  double at = 0;
  for (const Part& child : part.parts) {
    const bool beside = SideBySide(part) && child.kind != Part::Kind::kDevice;
    const Extent extent = Draw(child, 0, 0, nullptr);
    if (beside) {
      at += (at > 0 ? kGap : 0) + extent.width;
      inner.width = std::max(inner.width, at);
      inner.height = std::max(inner.height, extent.height);
    } else {
      inner.width = std::max(inner.width, extent.width);
    }
  }
  for (const Part& child : part.parts) {
    if (SideBySide(part) && child.kind != Part::Kind::kDevice) continue;
    inner.height += (inner.height > 0 ? kGap : 0) + Draw(child, 0, 0, nullptr).height;
  }
  const Extent whole{inner.width + 2 * kGap,
                     kTitle + inner.height + (part.parts.empty() ? 4 : kGap)};
  if (svg == nullptr) return whole;
  svg->Box(x, y, whole.width, whole.height, LookOf(part.kind).fill, LookOf(part.kind).stroke);
  svg->Text(x + kGap, y + 16, part.text, 12);
  double left = x + kGap;
  double top = y + kTitle;
  double bottom = top;
  for (const Part& child : part.parts) {
    if (!SideBySide(part) || child.kind == Part::Kind::kDevice) continue;
    const Extent extent = Draw(child, left, top, svg);
    left += extent.width + kGap;
    bottom = std::max(bottom, top + extent.height + kGap);
  }
  for (const Part& child : part.parts) {
    if (SideBySide(part) && child.kind != Part::Kind::kDevice) continue;
    bottom += Draw(child, x + kGap, bottom, svg).height + kGap;
  }
  return whole;
}

}  // namespace

Part MakePicture(const Machine& machine, const topology::BindingPlan* plan) {
  return Builder(machine, plan).Build();
}

std::string PictureText(const Part& machine) {
  std::string out;
  AddText(machine, "", "", &out);
  return out;
}

std::string PictureSvg(const Part& machine) {
  const Extent whole = Draw(machine, 0, 0, nullptr);
  Svg svg;
  Draw(machine, kGap, kGap, &svg);
  return svg.Finish(whole.width + 2 * kGap, whole.height + 2 * kGap);
}

}  // namespace lockstep::cli
