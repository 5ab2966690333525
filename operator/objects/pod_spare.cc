#include <string>
#include <utility>

#include "core/model/names.h"
#include "operator/objects/pod_object.h"
#include "operator/objects/pod_parts.h"

namespace lockstep::control {
namespace {

// It has nothing to save.
constexpr int kGraceSeconds = 5;

Json Program(const char* argument) {
  return Json::array({std::string(pod::kAgentFolder) + "/lockstep-agent", argument});
}

// The fields of a container that hold a place: its image, security context, resources, and ports of
// the node. Its ports have no names, so that they are not scraped.
Json Kept(const Json& container) {
  Json kept = Json::object();
  for (const char* key : {"name", "image", "imagePullPolicy", "resources", "securityContext",
                          "restartPolicy", "ports"}) {
    if (!IsUnset(container, key)) kept[key] = container[key];
  }
  if (kept.contains("ports")) {
    for (Json& port : kept["ports"]) port.erase("name");
  }
  return kept;
}

Json Waiting(const Json& container, const char* argument) {
  Json waiting = Kept(container);
  waiting["command"] = Program(argument);
  waiting["volumeMounts"] = Json::array(
      {{{"name", pod::kAgentVolume}, {"mountPath", pod::kAgentFolder}, {"readOnly", true}}});
  return waiting;
}

// The containers beside a machine's worker, because their images must be on the node too.
void Quieten(Json& spec) {
  for (Json& container : ListAt(spec, "containers")) container = Waiting(container, "--spare");
  for (Json& container : ListAt(spec, "initContainers")) {
    const bool stays = container.value("restartPolicy", Json()) == "Always";
    container = Waiting(container, stays ? "--spare" : "--version");
  }
}

// The job's claims. kubelet leaves alone what no container mounts.
Json ClaimsOf(const core::TrainingJob& job, Json& spec) {
  Json claims = Json::array();
  for (Json& volume : ListAt(spec, "volumes")) {
    if (!IsUnset(volume, "persistentVolumeClaim")) claims.push_back(volume);
  }
  if (const std::string& claim = job.spec.checkpoint.claim; !claim.empty()) {
    claims.push_back(
        {{"name", "lockstep-checkpoints"}, {"persistentVolumeClaim", {{"claimName", claim}}}});
  }
  return claims;
}

Result<std::string> Build(const core::TrainingJob& job, const std::string& agent_image,
                          uint32_t number, const std::vector<std::string>& avoid_nodes,
                          const AgentDelivery& delivery, bool with_claims) {
  Json pod_template = FromNode(job.spec.template_);
  if (pod_template.is_null()) pod_template = Json::object();
  Json spec = std::move(ObjectAt(pod_template, "spec"));
  Json& worker = pod::WorkerIn(spec);
  worker = pod::Worker(std::move(worker), job, delivery, "");
  Quieten(spec);
  Json claims = with_claims ? ClaimsOf(job, spec) : Json::array();
  // It has its own priority, whatever its machines have, and no scheduling gates, because no
  // controller would remove them.
  for (const char* key :
       {"volumes", "ephemeralContainers", "hostname", "subdomain", "priorityClassName", "priority",
        "preemptionPolicy", "readinessGates", "schedulingGates"}) {
    spec.erase(key);
  }
  if (!delivery.spare_priority_class.empty()) {
    spec["priorityClassName"] = delivery.spare_priority_class;
  }
  spec["terminationGracePeriodSeconds"] = kGraceSeconds;
  spec["automountServiceAccountToken"] = false;
  pod::SetCommonFields(job.spec, spec);
  spec["volumes"] = std::move(claims);
  Json elsewhere = Json::object();  // the worker has its mount
  pod::AddAgent(agent_image, delivery, spec, elsewhere);
  pod::PlaceSpare(job, avoid_nodes, spec);
  const auto spare = static_cast<int>(number);
  const std::string& name = job.metadata.name;
  Json metadata = MetadataOf(job, core::SparePodName(name, spare), core::SpareLabels(name, spare));
  Json annotations = std::move(ObjectAt(ObjectAt(pod_template, "metadata"), "annotations"));
  if (!annotations.empty()) metadata["annotations"] = std::move(annotations);
  return DumpJson(Json{{"apiVersion", "v1"},
                       {"kind", "Pod"},
                       {"metadata", std::move(metadata)},
                       {"spec", std::move(spec)}});
}

}  // namespace

Result<std::string> SparePodObject(const core::TrainingJob& job, const std::string& agent_image,
                                   uint32_t number, const std::vector<std::string>& avoid_nodes,
                                   const AgentDelivery& delivery, bool claims) {
  try {
    return Build(job, agent_image, number, avoid_nodes, delivery, claims);
  } catch (const Json::exception& wrong_type) {
    return Error::Invalid(std::string("spec.template is not a pod template: ") + wrong_type.what());
  }
}

}  // namespace lockstep::control
