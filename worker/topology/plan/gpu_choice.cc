#include "worker/topology/plan/gpu_choice.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "base/text/ascii.h"

namespace lockstep::topology {
namespace {

std::optional<std::string_view> Find(const core::Variables& variables, std::string_view name) {
  for (const auto& [key, value] : variables) {
    if (key == name) return value;
  }
  return std::nullopt;
}

// The only GPU whose UUID begins so; UUIDs may be cut short as long as they name one.
std::optional<size_t> FindUuid(const std::vector<Gpu>& gpus, const std::vector<VisibleGpu>& among,
                               std::string_view uuid) {
  std::optional<size_t> found;
  for (size_t i = 0; i < among.size(); ++i) {
    if (among[i].gpu < 0 || !gpus[static_cast<size_t>(among[i].gpu)].uuid.starts_with(uuid)) {
      continue;
    }
    if (found) return std::nullopt;
    found = i;
  }
  return found;
}

// One name of the list: "4", "GPU-8a3e", "MIG-GPU-8a3e.../1/0" of older drivers, "MIG-<uuid>" of
// newer ones, which doesn't tell its GPU.
std::optional<VisibleGpu> Resolve(const std::vector<Gpu>& gpus,
                                  const std::vector<VisibleGpu>& among, std::string_view name) {
  VisibleGpu visible{-1, std::string(name)};
  if (const std::optional<int> index = ParseNumber<int>(name)) {
    if (*index < 0 || static_cast<size_t>(*index) >= among.size()) return std::nullopt;
    const VisibleGpu& named = among[static_cast<size_t>(*index)];
    return VisibleGpu{named.gpu, named.name};
  }
  std::string_view uuid = name;
  const bool slice = name.starts_with("MIG-");
  bool told = false;  // by the drivers here, whether it is one of theirs
  if (slice) uuid = uuid.substr(4, uuid.find('/') == uuid.npos ? uuid.npos : uuid.find('/') - 4);
  if (uuid.starts_with("GPU-")) {
    const std::optional<size_t> found = FindUuid(gpus, among, uuid);
    if (found) return VisibleGpu{among[*found].gpu, visible.name};
    told = std::none_of(among.begin(), among.end(), [&](const VisibleGpu& other) {
      return other.gpu < 0 || gpus[static_cast<size_t>(other.gpu)].uuid.empty();
    });
    if (told && !slice) return std::nullopt;
  } else if (!slice) {
    return std::nullopt;
  }
  if (!told && among.size() == 1) visible.gpu = among.front().gpu;
  return visible;
}

// Keeps those of `choice` that the variable names, in its order.
void Narrow(const std::vector<Gpu>& gpus, std::string_view variable, std::string_view value,
            GpuChoice* choice) {
  std::vector<VisibleGpu> named;
  for (std::string_view rest = value; !rest.empty();) {
    const size_t comma = rest.find(',');
    const std::string_view name = Trim(rest.substr(0, comma));
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    if (name == "-1") break;  // the usual way to see none
    const std::optional<VisibleGpu> visible = Resolve(gpus, choice->visible, name);
    if (!visible) {
      choice->problem = std::string(variable) + " names \"" + std::string(name) +
                        "\", which is not one of the " + std::to_string(choice->visible.size()) +
                        " GPUs here: this GPU and those after it are not visible";
      break;
    }
    named.push_back(*visible);
  }
  choice->visible = std::move(named);
}

}  // namespace

GpuChoice ChooseGpus(const std::vector<Gpu>& gpus, const core::Variables& variables) {
  GpuChoice choice;
  const bool nvidia = std::any_of(gpus.begin(), gpus.end(),
                                  [](const Gpu& gpu) { return gpu.vendor == GpuVendor::kNvidia; });
  choice.vendor = nvidia ? GpuVendor::kNvidia : GpuVendor::kAmd;
  for (size_t i = 0; i < gpus.size(); ++i) {
    if (gpus[i].vendor != choice.vendor) continue;
    choice.visible.push_back({static_cast<int>(i), std::to_string(choice.visible.size())});
  }
  if (choice.visible.empty()) return choice;
  // ROCm's runtime reads its own first; HIP then numbers what is left, and takes CUDA's name too.
  if (nvidia) {
    if (const auto value = Find(variables, kCudaVisible))
      Narrow(gpus, kCudaVisible, *value, &choice);
    return choice;
  }
  if (const auto value = Find(variables, kRocrVisible)) Narrow(gpus, kRocrVisible, *value, &choice);
  const bool hip = Find(variables, kHipVisible).has_value();
  if (const auto value = Find(variables, hip ? kHipVisible : kCudaVisible)) {
    Narrow(gpus, hip ? kHipVisible : kCudaVisible, *value, &choice);
  }
  return choice;
}

core::Variables VariablesThatShow(const GpuChoice& choice, std::span<const VisibleGpu> visible,
                                  const core::Variables& variables) {
  std::string names;
  std::string positions;
  for (size_t i = 0; i < visible.size(); ++i) {
    names += (i > 0 ? "," : "") + visible[i].name;
    positions += (i > 0 ? "," : "") + std::to_string(i);
  }
  if (visible.empty()) return {};
  if (choice.vendor == GpuVendor::kNvidia) return {{std::string(kCudaVisible), names}};
  core::Variables shown = {{std::string(kRocrVisible), names}};
  // Those read after it number what it leaves.
  for (const std::string_view name : {kHipVisible, kCudaVisible}) {
    if (Find(variables, name)) shown.emplace_back(name, positions);
  }
  return shown;
}

}  // namespace lockstep::topology
