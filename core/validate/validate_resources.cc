#include "core/model/name_forms.h"
#include "core/validate/validator.h"

namespace lockstep::core {
namespace {

const std::string kPerProcess = "spec.resourcesPerProcess";
const std::string kPerMachine = "spec.resourcesPerMachine";

constexpr Quantity Bytes(int64_t bytes) {
  return Quantity::FromUnits(bytes, Quantity::Format::kBinary);
}

// The most that a process may ask for, so that the sum of a machine's 64 processes fits a Quantity.
constexpr Quantity kMostCores = Quantity::FromUnits(4096);
constexpr Quantity kMostMemory = Bytes(int64_t{64} << 40);
constexpr Quantity kMostAmount = Bytes(int64_t{8} << 50);

void ValidateAmount(Validator& validator, const std::string& path, const Quantity& amount,
                    const Quantity& most) {
  if (amount <= Quantity()) {
    validator.Error(path, "must be greater than 0", amount.ToString());
  } else if (amount > most) {
    validator.Error(path, "must be at most " + most.ToString(), amount.ToString());
  }
}

void ValidateBytes(Validator& validator, const std::string& path, const Quantity& bytes,
                   const Quantity& most) {
  ValidateAmount(validator, path, bytes, most);
  if (bytes.IsWhole()) return;
  validator.Error(
      path, "must be a whole number of bytes; did you mean a suffix such as Mi or M instead of m?",
      bytes.ToString());
}

void ValidatePerProcess(Validator& validator, const ResourcesPerProcess& resources) {
  if (!IsQualifiedName(resources.gpu_resource)) {
    validator.Error(kPerProcess + ".gpuResource", "must name a resource, as in nvidia.com/gpu",
                    "the text \"" + resources.gpu_resource + "\"");
  }
  if (resources.cpu) ValidateAmount(validator, kPerProcess + ".cpu", *resources.cpu, kMostCores);
  if (resources.memory) {
    ValidateBytes(validator, kPerProcess + ".memory", *resources.memory, kMostMemory);
  }
}

void ValidateMachineAmount(Validator& validator, const std::string& name, const Quantity& amount) {
  const std::string path = kPerMachine + "." + name;
  if (!IsQualifiedName(name)) {
    validator.Error(path, "must name resources, as in rdma/hca");
  }
  const bool is_size = name == "cpu" || name == "memory";
  if (is_size || name == validator.job.spec.resources_per_process.gpu_resource) {
    validator.Error(path, "write it as " + kPerProcess + "." + (is_size ? name : "gpu") +
                              ", which is multiplied by processesPerMachine");
  } else if (amount < Quantity()) {
    validator.Error(path, "must be 0 or more", amount.ToString());
  }
  const ResourcesPerProcess& each = validator.job.spec.resources_per_process;
  if (name.starts_with("hugepages-") && !each.cpu && !each.memory) {
    validator.Error(
        path, "needs " + kPerProcess + ".memory or cpu: a pod cannot request huge pages only");
  }
}

void ValidatePerMachine(Validator& validator, const Spec& spec) {
  for (const auto& [name, amount] : spec.resources_per_machine) {
    ValidateMachineAmount(validator, name, amount);
  }
}

// Kubelet gives exclusive cores only to Guaranteed pods, and none to a pod that requests a
// fraction.
void ValidateGuaranteed(Validator& validator, const Spec& spec) {
  if (spec.topology.policy != TopologyPolicy::kRequired || validator.local()) return;
  const ResourcesPerProcess& each = spec.resources_per_process;
  const std::string cores =
      "topology.policy Required needs whole CPUs for each process, as in 12: kubelet gives only "
      "such containers their own cores";
  if (!each.cpu) {
    validator.Error(kPerProcess + ".cpu", "is missing; " + cores);
  } else if (!each.cpu->IsWhole()) {
    validator.Error(kPerProcess + ".cpu", "must be whole; " + cores, each.cpu->ToString());
  }
  if (!each.memory) {
    validator.Error(kPerProcess + ".memory",
                    "is missing; topology.policy Required needs it, as in 110Gi: kubelet gives "
                    "their own cores only to Guaranteed pods");
  }
}

void ValidateSharedMemory(Validator& validator, const Spec& spec) {
  const std::string path = "spec.sharedMemory";
  const std::optional<Quantity>& store = spec.checkpoint.memory.size;
  if (store) ValidateBytes(validator, "spec.checkpoint.memory.size", *store, kMostAmount);
  if (const std::optional<Quantity>& bandwidth = spec.checkpoint.upload_bandwidth) {
    ValidateBytes(validator, "spec.checkpoint.uploadBandwidth", *bandwidth, kMostAmount);
  }
  if (!spec.shared_memory) return;
  ValidateBytes(validator, path, *spec.shared_memory, kMostAmount);
  if (!spec.resources_per_process.memory) return;
  const Result<Quantity> memory =
      spec.resources_per_process.memory->Times(spec.processes_per_machine);
  if (memory.ok() && *memory < *spec.shared_memory) {
    validator.Error(path,
                    "is counted within the machine's memory, which is " + memory->ToString() +
                        "; write less, or raise " + kPerProcess + ".memory",
                    spec.shared_memory->ToString());
  }
}

}  // namespace

void ValidateResources(Validator& validator) {
  const Spec& spec = validator.job.spec;
  ValidatePerProcess(validator, spec.resources_per_process);
  ValidatePerMachine(validator, spec);
  ValidateGuaranteed(validator, spec);
  ValidateSharedMemory(validator, spec);
}

}  // namespace lockstep::core
