#include "cli/convert/machine_resources.h"

#include <algorithm>

namespace lockstep::convert {
namespace {

constexpr const char* kGpuSuffix = ".com/gpu";

}  // namespace

MachineResources::MachineResources(const Node* resources) {
  if (resources == nullptr) return;
  for (const char* key : {"limits", "requests"}) {
    const Node* amounts = resources->Find(key);
    if (amounts == nullptr) continue;
    for (const NodeMember& member : amounts->members()) {
      Add(member.key, member.value.text(), member.value.position());
    }
  }
}

void MachineResources::Add(const std::string& name, const std::string& amount, Position position) {
  const bool known = std::any_of(amounts_.begin(), amounts_.end(),
                                 [&](const Amount& other) { return other.name == name; });
  if (!known) amounts_.push_back({.name = name, .text = amount, .position = position});
}

int64_t MachineResources::gpus() const {
  for (const Amount& amount : amounts_) {
    if (amount.name.ends_with(kGpuSuffix)) return ParseNumber<int64_t>(amount.text).value_or(0);
  }
  return 0;
}

void MachineResources::Write(JobBuilder& builder) const {
  if (builder.job.spec.processes_per_machine < 1) return;  // an error of its own
  for (const Amount& amount : amounts_) {
    const Result<Quantity> total = Quantity::Parse(amount.text);
    if (!total.ok()) {
      builder.Error(
          amount.name, amount.position,
          "\"" + amount.text + "\" is not an amount of a resource, as in 8, 500m or 64Gi");
    } else if (amount.name.ends_with(kGpuSuffix)) {
      WriteGpus(amount, builder);
    } else if (amount.name == "cpu" || amount.name == "memory") {
      WriteShare(amount, *total, builder);
    } else {
      builder.job.spec.resources_per_machine[amount.name] = *total;
    }
  }
}

void MachineResources::WriteGpus(const Amount& amount, JobBuilder& builder) {
  core::Spec& spec = builder.job.spec;
  const std::optional<int32_t> gpus = ParseNumber<int32_t>(amount.text);
  if (!gpus || (*gpus > 0 && *gpus < spec.processes_per_machine)) {
    builder.Error(amount.name, amount.position,
                  amount.text + " cannot be shared by " +
                      std::to_string(spec.processes_per_machine) +
                      " processes; write at most as many processes a machine as it has GPUs");
    return;
  }
  if (*gpus % spec.processes_per_machine != 0) {
    builder.Remark(amount.name + ": " + amount.text + " cannot be divided evenly among " +
                   std::to_string(spec.processes_per_machine) + " processes; each has " +
                   std::to_string(*gpus / spec.processes_per_machine) + ".");
  }
  spec.resources_per_process.gpu = *gpus / spec.processes_per_machine;
  spec.resources_per_process.gpu_resource = amount.name;
}

void MachineResources::WriteShare(const Amount& amount, const Quantity& total,
                                  JobBuilder& builder) {
  core::Spec& spec = builder.job.spec;
  // Whole bytes of memory, thousandths of a core.
  const int64_t grain = amount.name == "memory" ? 1000 : 1;
  const int64_t share = total.milli() / spec.processes_per_machine / grain * grain;
  if (share * spec.processes_per_machine != total.milli()) {
    builder.Remark(amount.name + " " + total.ToString() +
                   " is rounded down to a share for each of " +
                   std::to_string(spec.processes_per_machine) + " processes.");
  }
  const Quantity each = Quantity::FromMilli(share, total.format());
  (amount.name == "cpu" ? spec.resources_per_process.cpu : spec.resources_per_process.memory) =
      each;
}

}  // namespace lockstep::convert
