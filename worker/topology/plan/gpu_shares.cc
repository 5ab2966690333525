#include "worker/topology/plan/gpu_shares.h"

#include <algorithm>

#include "worker/topology/plan/plan_text.h"

namespace lockstep::topology {

GpuShares::GpuShares(const Machine& machine, const BindingRequest& request)
    : request_(request),
      choice_(ChooseGpus(machine.gpus, request.variables)),
      of_ranks_(static_cast<size_t>(request.processes) * static_cast<size_t>(request.parts)) {
  Assign();
}

void GpuShares::Assign() {
  const auto processes = static_cast<size_t>(request_.processes);
  const size_t each = Each();
  Note(choice_.problem);
  if (request_.gpus == 0) return;
  const size_t wanted = of_ranks_.size() * std::max<size_t>(each, 1);
  if (choice_.visible.empty()) {
    if (each > 0) Note("the job asks for GPUs, and none is visible here");
    return;
  }
  // A process that sees all of a machine's GPUs takes number LOCAL_RANK: there must be so many.
  const bool isolated = request_.visibility == core::GpuVisibility::kIsolated && !request_.launcher;
  const auto parts = static_cast<size_t>(request_.parts);
  split_ = parts > 1 && choice_.visible.size() >= (isolated ? parts : wanted);
  if (choice_.visible.size() < wanted) Shortage(wanted);
  for (size_t k = 0; k < of_ranks_.size(); ++k) {
    const std::span<const VisibleGpu> own = PartOf(k / processes);
    const size_t count = each > 0 ? std::min(each, own.size()) : processes == 1 ? own.size() : 1;
    for (size_t i = 0; i < count; ++i) {
      const size_t first = k % processes * std::max<size_t>(each, 1);
      of_ranks_[k].push_back(own[(first + i) % own.size()]);
    }
  }
}

size_t GpuShares::Each() const { return static_cast<size_t>(request_.gpus.value_or(0)); }

// A machine's part of the GPUs; all of them where they can't be shared out.
std::span<const VisibleGpu> GpuShares::PartOf(size_t part) const {
  const std::span<const VisibleGpu> all(choice_.visible);
  if (!split_) return all;
  const size_t own = static_cast<size_t>(request_.processes) * Each();
  const auto parts = static_cast<size_t>(request_.parts);
  if (own > 0 && own * parts <= all.size()) return all.subspan(part * own, own);
  const size_t from = part * all.size() / parts;
  return all.subspan(from, (part + 1) * all.size() / parts - from);
}

void GpuShares::Shortage(size_t wanted) {
  if (Slices() || request_.gpu_resource.ends_with(".shared")) return;  // parts were asked for
  const std::string have = std::to_string(choice_.visible.size());
  if (Each() == 0) {
    return Note(std::to_string(wanted) + " processes have " +
                CountText(choice_.visible.size(), "GPU") + " here: too few for one each");
  }
  Note(request_.parts > 1
           ? "the job's " + std::to_string(request_.parts) + " machines need " +
                 CountText(wanted, "GPU") + " and this computer has " + have +
                 ": their processes use the same ones"
           : "the job needs " + CountText(wanted, "GPU") + " of a machine, and this one has " +
                 have + ": its processes use the same ones");
}

bool GpuShares::Slices() const { return request_.gpu_resource.find("mig-") != std::string::npos; }

// Of MIG's slices CUDA shows a process one, and takes no GPU's number for another: without their
// own names there is no choice.
core::Variables GpuShares::VariablesFor(std::span<const VisibleGpu> gpus) const {
  const bool nameless = std::any_of(gpus.begin(), gpus.end(), [](const VisibleGpu& visible) {
    return !visible.name.starts_with("MIG-");
  });
  if (Slices() && nameless) return {};
  return VariablesThatShow(choice_, gpus, request_.variables);
}

core::Variables GpuShares::ShowPart(size_t part) const {
  return split_ ? VariablesFor(PartOf(part)) : core::Variables{};
}

void GpuShares::Note(const std::string& note) {
  if (!note.empty()) notes_.push_back(note);
}

}  // namespace lockstep::topology
