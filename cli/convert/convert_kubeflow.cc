// Kubeflow's PyTorchJob (kubeflow.org/v1) and TrainJob (trainer.kubeflow.org/v1alpha1) as
// TrainingJobs.
#include "cli/convert/job_builder.h"
#include "cli/convert/kubeflow_job.h"
#include "cli/convert/machine_resources.h"

namespace lockstep::convert {
namespace {

void CompareTemplates(const Node* master, const Node* worker, JobBuilder& builder) {
  if (master == nullptr || worker == nullptr) return;
  const Node* other = worker->Find("template");
  const Node* used = master->Find("template");
  if (other != nullptr && used != nullptr && *other != *used) {
    builder.Remark("Master's and Worker's templates differ: Master's is used for every machine.");
  }
}

void TakeElasticPolicy(KubeflowJob& job) {
  const Node* elastic = job.source().Find("elasticPolicy");
  if (elastic == nullptr) return;
  for (const NodeMember& member : elastic->members()) {
    if (member.key == "maxRestarts") {
      job.SetMaxRestarts(member.value);
    } else if (member.key != "nProcPerNode") {
      job.builder().Remark("elasticPolicy." + member.key +
                           " is not carried over: the job runs on all its machines, and they find "
                           "each other by themselves.");
    }
  }
}

}  // namespace

void ConvertPyTorchJob(const Node& document, JobBuilder& builder) {
  KubeflowJob job(document, builder);
  const Node roles =
      RolesOf(job.source().Find("pytorchReplicaSpecs"), {"Master", "Worker"}, builder);
  const Node* master = roles.Find("Master");
  const Node* worker = roles.Find("Worker");
  const Node* leading = master != nullptr ? master : worker;
  const Node* pod_template = leading == nullptr ? nullptr : leading->Find("template");
  if (!job.TakeTemplate(pod_template, "pytorch", "spec.pytorchReplicaSpecs")) return;
  const Node* said = job.source().Find("nprocPerNode");
  if (said == nullptr) said = job.source().Walk({"elasticPolicy", "nProcPerNode"});
  const int64_t machines = Replicas(master) + Replicas(worker);
  const int64_t processes =
      ProcessesPerNode(job.worker(), said, job.resources().gpus(), "nprocPerNode", builder);
  job.SetLaunch({.machines = machines, .per_machine = processes});
  CompareTemplates(master, worker, builder);
  job.TakeRestartPolicy(*leading);
  job.TakeRunPolicy();
  TakeElasticPolicy(job);
  job.Finish(machines, processes);
  job.resources().Write(builder);
}

void ConvertTrainJob(const Node& document, JobBuilder& builder) {
  const Node* source = document.Find("spec");
  const Node* trainer = source == nullptr ? nullptr : source->Find("trainer");
  if (trainer == nullptr || !trainer->IsMap()) {
    builder.Error("spec.trainer", document.position(),
                  "is missing: the job's command is in its runtime, which is not in this file");
    return;
  }
  const MachineResources resources(trainer->Find("resourcesPerNode"));
  const int64_t processes = ProcessesPerNode(*trainer, trainer->Find("numProcPerNode"),
                                             resources.gpus(), "numProcPerNode", builder);
  const int64_t machines = CountAt(*trainer, "numNodes", 1, builder);
  if (trainer->Find("numNodes") == nullptr && source->Find("runtimeRef") != nullptr) {
    builder.Warn(
        "the runtime says how many nodes there are, and it is not in this file: write "
        "numMachines.");
  }
  Node spec = Node::Map();
  spec.Add("numMachines", Node::Integer(machines));
  spec.Add("processesPerMachine", Node::Integer(processes));
  for (const NodeMember& member : trainer->members()) {
    if (IsOneOf(member.key, {"image", "command", "args"})) {
      spec.Add(member.key, member.value);
    } else if (member.key == "env") {
      spec.Add(member.key, CleanEnv(member.value, builder));
    } else if (!IsOneOf(member.key, {"numNodes", "numProcPerNode", "resourcesPerNode"})) {
      builder.Remark("trainer." + member.key + " is not carried over.");
    }
  }
  const Node so_far = spec;
  SetLaunch(so_far, spec, {.machines = machines, .per_machine = processes}, builder);
  for (const NodeMember& member : source->members()) {
    if (member.key == "suspend") {
      spec.Add(member.key, member.value);
    } else if (member.key == "runtimeRef") {
      builder.Remark(
          "runtimeRef " + TextAt(member.value, "name") +
          " is not in this file: write its template's image, volumes and command into this job.");
    } else if (member.key != "trainer") {
      builder.Remark("spec." + member.key + " is not carried over.");
    }
  }
  ReadSpec(document, std::move(spec), builder);
  resources.Write(builder);
}

}  // namespace lockstep::convert
