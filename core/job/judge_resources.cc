#include "core/job/judge.h"
#include "core/job/shortcuts.h"

namespace lockstep::core {
namespace {

const std::string kPerProcess = "spec.resourcesPerProcess";
const std::string kPerMachine = "spec.resourcesPerMachine";

void JudgeAmount(Judge& judge, const std::string& path, const std::optional<Quantity>& amount) {
  if (!amount) return;
  if (*amount <= Quantity()) {
    judge.Error(path, "must be greater than 0", amount->ToString());
    return;
  }
  const int factor = judge.job.spec.processes_per_machine;
  if (const Result<Quantity> total = amount->Times(factor); !total.ok()) {
    judge.Error(path, total.error().message);
  }
}

void JudgePerProcess(Judge& judge, const ResourcesPerProcess& resources) {
  if (resources.gpu) judge.Range(kPerProcess + ".gpu", *resources.gpu, 0, 64);
  if (resources.gpu_resource.empty()) {
    judge.Error(kPerProcess + ".gpuResource", "must name a resource, as in nvidia.com/gpu");
  }
  JudgeAmount(judge, kPerProcess + ".cpu", resources.cpu);
  JudgeAmount(judge, kPerProcess + ".memory", resources.memory);
  if (resources.memory && !resources.memory->IsWhole()) {
    judge.Error(kPerProcess + ".memory",
                "must be a whole number of bytes; did you mean a suffix "
                "such as Mi or M instead of m?",
                resources.memory->ToString());
  }
}

void JudgeMachineAmount(Judge& judge, const std::string& name, const Quantity& amount) {
  const std::string path = kPerMachine + "." + name;
  const bool is_size = name == "cpu" || name == "memory";
  if (is_size || name == judge.job.spec.resources_per_process.gpu_resource) {
    judge.Error(path, "write it as " + kPerProcess + "." + (is_size ? name : "gpu") +
                          ", which is multiplied by processesPerMachine");
  } else if (amount < Quantity()) {
    judge.Error(path, "must be 0 or more", amount.ToString());
  }
}

void JudgePerMachine(Judge& judge, const Spec& spec) {
  for (const auto& [name, amount] : spec.resources_per_machine) {
    JudgeMachineAmount(judge, name, amount);
  }
}

void JudgeSharedMemory(Judge& judge, const Spec& spec) {
  const std::string path = "spec.sharedMemory";
  if (!spec.shared_memory) return;
  if (*spec.shared_memory <= Quantity() || !spec.shared_memory->IsWhole()) {
    judge.Error(path, "must be a number of bytes greater than 0, as in 16Gi",
                spec.shared_memory->ToString());
    return;
  }
  if (!spec.resources_per_process.memory) return;
  const Result<Quantity> memory =
      spec.resources_per_process.memory->Times(spec.processes_per_machine);
  if (memory.ok() && *memory < *spec.shared_memory) {
    judge.Error(path,
                "is counted within the machine's memory, which is " + memory->ToString() +
                    "; write less, or raise " + kPerProcess + ".memory",
                spec.shared_memory->ToString());
  }
}

void JudgeTemplate(Judge& judge, const Spec& spec) {
  const std::string path = "spec.template";
  const Node& pod_template = spec.template_;
  if (pod_template.IsNull()) return;
  if (!pod_template.IsMap()) {
    judge.Error(path, "must be a pod template: {metadata, spec}", pod_template.Describe());
    return;
  }
  for (const NodeMember& member : pod_template.members()) {
    if (member.key == "metadata" || member.key == "spec") continue;
    judge.Error(path, "holds the unknown field \"" + member.key +
                          "\"; a pod template has metadata and spec");
  }
  for (const std::string& field : DoubledShortcuts(spec)) {
    judge.Error("spec." + field, "stands in the template's worker container too; keep one of them");
  }
  const Node* worker = WorkerContainer(spec);
  if (worker != nullptr && worker->Find("resources") != nullptr) {
    judge.Error(path, "has resources in its worker container; write them as " + kPerProcess +
                          " and " + kPerMachine);
  }
}

}  // namespace

void JudgeResources(Judge& judge) {
  const Spec& spec = judge.job.spec;
  JudgePerProcess(judge, spec.resources_per_process);
  JudgePerMachine(judge, spec);
  JudgeSharedMemory(judge, spec);
  JudgeTemplate(judge, spec);
}

}  // namespace lockstep::core
