#include "operator/objects/pod_group.h"

#include "core/model/names.h"

namespace lockstep::control {

using core::GangScheduler;

std::vector<kube::Resource> PodGroupsOf(GangScheduler gang) {
  switch (gang) {
    case GangScheduler::kNone:
      break;
    case GangScheduler::kCoscheduling:
      return {{"scheduling.x-k8s.io", "v1alpha1", "podgroups"}};
  }
  return {};
}

const char* ProviderOf(GangScheduler gang) {
  switch (gang) {
    case GangScheduler::kNone:
      break;
    case GangScheduler::kCoscheduling:
      return "the CustomResourceDefinition of scheduler-plugins";
  }
  return "";
}

std::string PodGroupObject(const core::TrainingJob& job, const core::PodGroupStatus& group,
                           int32_t machines, const kube::Resource& resource) {
  return DumpJson(
      Json{{"apiVersion", std::string(resource.group) + "/" + std::string(resource.version)},
           {"kind", "PodGroup"},
           {"metadata", MetadataOf(job, group.name, core::JobLabels(job.metadata.name))},
           {"spec", {{"minMember", machines}}}});
}

void JoinPodGroup(const core::PodGroupStatus& group, Json& metadata) {
  switch (group.gang) {
    case GangScheduler::kNone:
      return;
    case GangScheduler::kCoscheduling:
      ObjectAt(metadata, "labels")["scheduling.x-k8s.io/pod-group"] = group.name;
      return;
  }
}

}  // namespace lockstep::control
