#include <string>
#include <utility>

#include "operator/objects/pod_object.h"
#include "operator/objects/pod_parts.h"

namespace lockstep::control {
namespace {

// All that Kueue reads of a container.
Json Counted(const Json& containers) {
  Json counted = Json::array();
  for (const Json& container : containers) {
    Json kept = Json::object();
    for (const char* key : {"name", "image", "resources", "restartPolicy"}) {
      if (!IsUnset(container, key)) kept[key] = container[key];
    }
    counted.push_back(std::move(kept));
  }
  return counted;
}

Json PodTemplate(const core::TrainingJob& job, const AgentDelivery& delivery) {
  Json pod_template = FromNode(job.spec.template_);
  if (pod_template.is_null()) pod_template = Json::object();
  Json spec = std::move(ObjectAt(pod_template, "spec"));
  Json& worker = pod::WorkerIn(spec);
  worker = pod::Worker(std::move(worker), job, delivery, "");
  Json elsewhere = Json::object();  // mounts
  pod::AddAgent(job.spec.image, delivery, spec, elsewhere);
  Json counted = {{"restartPolicy", "Never"}};
  for (const char* key : {"nodeSelector", "tolerations", "runtimeClassName", "overhead"}) {
    if (!IsUnset(spec, key)) counted[key] = std::move(spec[key]);
  }
  if (Json& affinity = ObjectAt(spec, "affinity"); !IsUnset(affinity, "nodeAffinity")) {
    counted["affinity"]["nodeAffinity"] = std::move(affinity["nodeAffinity"]);
  }
  for (const char* key : {"initContainers", "containers"}) {
    if (!IsUnset(spec, key)) counted[key] = Counted(spec[key]);
  }
  if (const std::string& name = job.spec.priority_class_name; !name.empty()) {
    counted["priorityClassName"] = name;
  }
  return {{"metadata", Json::object()}, {"spec", std::move(counted)}};
}

}  // namespace

Result<std::string> CountedTemplate(const core::TrainingJob& job, const AgentDelivery& delivery) {
  try {
    return DumpJson(PodTemplate(job, delivery));
  } catch (const Json::exception& wrong_type) {
    return Error::Invalid(std::string("spec.template is not a pod template: ") + wrong_type.what());
  }
}

}  // namespace lockstep::control
