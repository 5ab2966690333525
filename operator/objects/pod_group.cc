#include "operator/objects/pod_group.h"

#include <algorithm>
#include <map>

#include "core/model/names.h"

namespace lockstep::control {
namespace {

using core::GangScheduler;

constexpr const char* kVolcanoQueue = "scheduling.volcano.sh/queue-name";

Json SpecOf(const core::TrainingJob& job, GangScheduler gang, int32_t machines) {
  if (gang == GangScheduler::kKubernetes) {
    return {{"schedulingPolicy", {{"gang", {{"minCount", machines}}}}}};
  }
  Json spec = {{"minMember", machines}};
  if (gang != GangScheduler::kVolcano) return spec;
  const std::map<std::string, std::string>& annotations = job.metadata.annotations;
  if (const auto queue = annotations.find(kVolcanoQueue); queue != annotations.end()) {
    spec["queue"] = queue->second;
  }
  if (const std::string& name = job.spec.priority_class_name; !name.empty()) {
    spec["priorityClassName"] = name;
  }
  return spec;
}

}  // namespace

std::vector<kube::Resource> PodGroupsOf(GangScheduler gang) {
  switch (gang) {
    case GangScheduler::kNone:
      break;
    case GangScheduler::kKubernetes:
      return {{"scheduling.k8s.io", "v1beta1", "podgroups"},
              {"scheduling.k8s.io", "v1alpha2", "podgroups"}};
    case GangScheduler::kCoscheduling:
      return {{"scheduling.x-k8s.io", "v1alpha1", "podgroups"}};
    case GangScheduler::kVolcano:
      return {{"scheduling.volcano.sh", "v1beta1", "podgroups"}};
  }
  return {};
}

const char* ProviderOf(GangScheduler gang) {
  switch (gang) {
    case GangScheduler::kNone:
      break;
    case GangScheduler::kKubernetes:
      return "PodGroups of Kubernetes, 1.36 or later with its API and gate GenericWorkload enabled";
    case GangScheduler::kCoscheduling:
      return "the CustomResourceDefinition of scheduler-plugins";
    case GangScheduler::kVolcano:
      return "Volcano";
  }
  return "";
}

std::string PodGroupObject(const core::TrainingJob& job, const core::PodGroupStatus& group,
                           int32_t machines, const kube::Resource& resource) {
  return DumpJson(
      Json{{"apiVersion", std::string(resource.group) + "/" + std::string(resource.version)},
           {"kind", "PodGroup"},
           {"metadata", MetadataOf(job, group.name, core::JobLabels(job.metadata.name))},
           {"spec", SpecOf(job, group.gang, machines)}});
}

void JoinPodGroup(const core::PodGroupStatus& group, Json& metadata, Json& spec) {
  switch (group.gang) {
    case GangScheduler::kNone:
      return;
    case GangScheduler::kKubernetes:
      spec["schedulingGroup"] = {{"podGroupName", group.name}};
      return;
    case GangScheduler::kCoscheduling:
      ObjectAt(metadata, "labels")["scheduling.x-k8s.io/pod-group"] = group.name;
      return;
    case GangScheduler::kVolcano:
      ObjectAt(metadata, "annotations")["scheduling.k8s.io/group-name"] = group.name;
      return;
  }
}

// Such that no namespace's rules of security or quota have anything against it.
std::string JoiningPod(const core::PodGroupStatus& group) {
  if (group.gang != GangScheduler::kKubernetes) return "";
  const Json least = {{"cpu", "1m"}, {"memory", "1Mi"}};
  Json metadata = {{"generateName", group.name + "-"}};
  Json spec = {
      {"automountServiceAccountToken", false},
      {"securityContext",
       {{"runAsNonRoot", true}, {"seccompProfile", {{"type", "RuntimeDefault"}}}}},
      {"containers",
       {{{"name", "none"},
         {"image", "none"},
         {"resources", {{"requests", least}, {"limits", least}}},
         {"securityContext",
          {{"allowPrivilegeEscalation", false}, {"capabilities", {{"drop", {"ALL"}}}}}}}}}};
  JoinPodGroup(group, metadata, spec);
  return DumpJson(Json{{"apiVersion", "v1"},
                       {"kind", "Pod"},
                       {"metadata", std::move(metadata)},
                       {"spec", std::move(spec)}});
}

bool HasJoined(const std::string& pod) {
  return ParseJson(pod).contains(Json::json_pointer("/spec/schedulingGroup/podGroupName"));
}

bool IsHeeded(const std::string& pod_group) {
  const Json group = ParseJson(pod_group);
  const Json::json_pointer place("/status/conditions");
  return group.contains(place) && std::ranges::any_of(group[place], [](const Json& condition) {
           return condition.is_object() && condition.value("type", Json()) == "PodGroupScheduled";
         });
}

}  // namespace lockstep::control
