#include "operator/objects/pod_object.h"

#include <chrono>
#include <utility>

#include "core/model/names.h"
#include "core/model/shortcuts.h"
#include "operator/objects/pod_group.h"
#include "operator/objects/pod_parts.h"

namespace lockstep::control {
namespace {

constexpr const char* kTerminationPath = "/dev/termination-log";
// The time that the agent needs after the last SIGKILL: sweep, termination message, VERDICT.
constexpr auto kAgentGrace = seconds(15);

void SetOwnFields(const core::TrainingJob& job, uint32_t machine, Json& spec) {
  const core::Spec& wanted = job.spec;
  if (wanted.network.hostnames) {
    spec["hostname"] = core::HostName(job.metadata.name, static_cast<int>(machine));
    spec["subdomain"] = core::ServiceName(job.metadata.name);
  }
  spec["terminationGracePeriodSeconds"] =
      (std::chrono::ceil<seconds>(wanted.grace_period) + kAgentGrace).count();
  if (!wanted.priority_class_name.empty()) spec["priorityClassName"] = wanted.priority_class_name;
  pod::SetCommonFields(wanted, spec);
}

// The template's labels and annotations below ours.
Json MetadataOfPod(const core::TrainingJob& job, const PodRequest& request, Json user) {
  Json metadata = MetadataOf(
      job, PodNameOf(job, request.machine, request.attempt),
      core::PodLabels(job.metadata.name, static_cast<int>(request.machine), request.attempt));
  Json& labels = ObjectAt(user, "labels");
  labels.update(metadata["labels"]);
  metadata["labels"] = std::move(labels);
  Json& annotations = ObjectAt(user, "annotations");
  SetIfUnset(annotations, "kubectl.kubernetes.io/default-container", core::kWorkerContainer);
  metadata["annotations"] = std::move(annotations);
  return metadata;
}

// If a container that runs before the worker writes no termination message, kubelet uses the end of
// its log, which lastFailure quotes.
void KeepLastWords(Json& spec) {
  if (IsUnset(spec, "initContainers")) return;
  for (Json& container : ListAt(spec, "initContainers")) {
    SetIfUnset(container, "terminationMessagePolicy", "FallbackToLogsOnError");
  }
}

Result<std::string> Build(const core::TrainingJob& job, const core::JobStatus& status,
                          const PodRequest& request, const AgentDelivery& delivery) {
  Json pod_template = FromNode(job.spec.template_);
  if (pod_template.is_null()) pod_template = Json::object();
  Json spec = std::move(ObjectAt(pod_template, "spec"));
  Json& worker = pod::WorkerIn(spec);
  const std::string termination_path = worker.value("terminationMessagePath", kTerminationPath);
  Result<std::string> config =
      pod::ConfigVariable(job, status, request, delivery, termination_path);
  if (!config.ok()) return config.error();
  worker = pod::Worker(std::move(worker), job, delivery, *config);
  SetOwnFields(job, request.machine, spec);
  pod::AddVolumes(job, status.agent.image, request.key_secret, delivery, spec, worker);
  KeepLastWords(spec);
  pod::Place(job, request.avoid_nodes, request.spare_node, spec);
  Json metadata = MetadataOfPod(job, request, ObjectAt(pod_template, "metadata"));
  if (status.pod_group) JoinPodGroup(*status.pod_group, metadata, spec);
  return DumpJson(Json{{"apiVersion", "v1"},
                       {"kind", "Pod"},
                       {"metadata", std::move(metadata)},
                       {"spec", std::move(spec)}});
}

}  // namespace

namespace pod {

Json& WorkerIn(Json& spec) {
  Json& containers = ListAt(spec, "containers");
  for (Json& container : containers) {
    if (container.value("name", "") == core::kWorkerContainer) return container;
  }
  return *containers.insert(containers.begin(), Json::object());
}

void SetCommonFields(const core::Spec& wanted, Json& spec) {
  spec["restartPolicy"] = "Never";
  SetIfUnset(spec, "automountServiceAccountToken", false);
  SetIfUnset(spec, "enableServiceLinks", false);
  SetIfUnset(ObjectAt(spec, "securityContext"), "seccompProfile", {{"type", "RuntimeDefault"}});
  if (!wanted.scheduler_name.empty()) spec["schedulerName"] = wanted.scheduler_name;
  if (wanted.scheduling.gang == core::GangScheduler::kVolcano) {
    SetIfUnset(spec, "schedulerName", "volcano");
  }
  for (const core::LocalObjectReference& secret : wanted.image_pull_secrets) {
    ListAt(spec, "imagePullSecrets").push_back({{"name", secret.name}});
  }
}

}  // namespace pod

std::string PodNameOf(const core::TrainingJob& job, uint32_t machine, uint32_t attempt) {
  return core::PodName(job.metadata.name, static_cast<int>(machine), attempt, kFirstEpoch);
}

Result<std::string> PodObject(const core::TrainingJob& job, const core::JobStatus& status,
                              const PodRequest& request, const AgentDelivery& delivery) {
  try {
    return Build(job, status, request, delivery);
  } catch (const Json::exception& wrong_type) {
    return Error::Invalid(std::string("spec.template is not a pod template: ") + wrong_type.what());
  }
}

}  // namespace lockstep::control
