#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "core/model/names.h"
#include "core/model/shortcuts.h"
#include "core/validate/validator.h"

namespace lockstep::core {
namespace {

const std::string kTemplatePath = "spec.template";

struct Elsewhere {
  std::string_view field;
  std::string_view advice;
};

bool IsOneOf(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void ValidateLabels(Validator& validator, const Node& labels) {
  const std::map<std::string, std::string> own = JobLabels("");
  for (const NodeMember& label : labels.members()) {
    if (!label.key.starts_with(kLabelPrefix) && !own.contains(label.key)) continue;
    validator.Error(kTemplatePath + ".metadata.labels",
                    "holds a label that Lockstep sets itself; remove it", label.key);
  }
}

void ValidateMetadata(Validator& validator, const Node& metadata) {
  for (const NodeMember& member : metadata.members()) {
    const std::string path = kTemplatePath + ".metadata." + member.key;
    if (member.key == "labels") {
      ValidateLabels(validator, member.value);
    } else if (IsOneOf(member.key,
                       {"name", "generateName", "namespace", "ownerReferences", "finalizers"})) {
      validator.Error(path, "remove it: Lockstep sets the pods' " + member.key);
    } else if (member.key != "annotations") {
      validator.Error(path, "unknown field; a template's metadata has labels and annotations");
    }
  }
}

// The limits of the CRD's schema: the API server accepts what this accepts.
constexpr std::pair<std::string_view, size_t> kMostItems[] = {
    {"containers", 8}, {"initContainers", 16}, {"volumes", 256}};
constexpr size_t kMostMounts = 256;

void ValidateCount(Validator& validator, const std::string& field, const Node* items, size_t most) {
  if (items == nullptr || items->items().size() <= most) return;
  validator.Error(kTemplatePath + ".spec." + field,
                  "must have at most " + std::to_string(most) + " items",
                  std::to_string(items->items().size()));
}

// Containers and volumes, by the names that Lockstep adds its own under.
void ValidateNames(Validator& validator, const Node& pod, std::string_view list) {
  const Node* items = pod.Find(list);
  if (items == nullptr) return;
  for (const Node& item : items->items()) {
    const Node* name = item.Find("name");
    if (name == nullptr || !name->text().starts_with(kOwnNamePrefix)) continue;
    validator.Error(kTemplatePath + ".spec." + std::string(list),
                    "holds a name that begins with " + std::string(kOwnNamePrefix) +
                        "; Lockstep reserves such names",
                    name->Describe());
  }
}

// A container of the template must reach neither the gang's key nor the agent's file.
void ValidateMounts(Validator& validator, const Node& pod, std::string_view list) {
  const Node* containers = pod.Find(list);
  if (containers == nullptr) return;
  for (const Node& container : containers->items()) {
    const Node* mounts = container.Find("volumeMounts");
    if (mounts == nullptr) continue;
    ValidateCount(validator, std::string(list) + "[*].volumeMounts", mounts, kMostMounts);
    for (const Node& mount : mounts->items()) {
      const Node* name = mount.Find("name");
      if (name == nullptr || !name->text().starts_with(kOwnNamePrefix)) continue;
      validator.Error(kTemplatePath + ".spec." + std::string(list),
                      "mounts a volume whose name begins with " + std::string(kOwnNamePrefix) +
                          "; Lockstep reserves such names; mount one of spec.template.spec.volumes",
                      name->Describe());
    }
  }
}

void ValidatePod(Validator& validator, const Node& pod) {
  constexpr std::array<Elsewhere, 4> kElsewhere = {{
      {"hostname", "remove it: Lockstep sets the pods' hostname"},
      {"subdomain", "remove it: Lockstep sets the pods' subdomain"},
      {"terminationGracePeriodSeconds", "write it as spec.gracePeriod"},
      {"activeDeadlineSeconds", "write it as spec.activeDeadlineSeconds"},
  }};
  for (const Elsewhere& each : kElsewhere) {
    if (pod.Find(each.field) == nullptr) continue;
    validator.Error(kTemplatePath + ".spec." + std::string(each.field), std::string(each.advice));
  }
  const Node* policy = pod.Find("restartPolicy");
  if (policy != nullptr && policy->text() != "Never") {
    validator.Error(kTemplatePath + ".spec.restartPolicy",
                    "must be Never: Lockstep restarts processes itself, by spec.failurePolicy",
                    policy->Describe());
  }
  const Node* qualified = pod.Find("setHostnameAsFQDN");
  if (qualified != nullptr && qualified->text() == "true" &&
      !validator.job.spec.network.hostnames) {
    validator.Error(kTemplatePath + ".spec.setHostnameAsFQDN",
                    "needs spec.network.hostnames: without it a pod has no domain name");
  }
  // An init container with restartPolicy Always is a sidecar.
  const Node* containers = pod.Find("containers");
  if (containers != nullptr && std::ranges::any_of(containers->items(), [](const Node& container) {
        return container.Find("restartPolicy") != nullptr;
      })) {
    validator.Error(kTemplatePath + ".spec.containers",
                    "has a restartPolicy; remove it: Lockstep restarts processes itself, by "
                    "spec.failurePolicy");
  }
  for (const auto& [list, most] : kMostItems) {
    ValidateCount(validator, std::string(list), pod.Find(list), most);
    ValidateNames(validator, pod, list);
  }
  for (const std::string_view list : {"containers", "initContainers"}) {
    ValidateMounts(validator, pod, list);
  }
}

void ValidateShortcuts(Validator& validator) {
  const Spec& spec = validator.job.spec;
  for (const DoubledShortcut& doubled : DoubledShortcuts(spec)) {
    validator.Error("spec." + doubled.field,
                    "is also set in the template's " + doubled.place + "; keep one of them");
  }
  const Node* worker = WorkerContainer(spec);
  const Node* resources = worker == nullptr ? nullptr : worker->Find("resources");
  if (resources != nullptr &&
      (resources->Find("limits") != nullptr || resources->Find("requests") != nullptr)) {
    validator.Error(
        kTemplatePath,
        "has limits or requests in its worker container; write them as spec.resourcesPerProcess "
        "and spec.resourcesPerMachine");
  }
}

// Whether a container of the user's own keeps its pod Guaranteed.
bool IsGuaranteed(const Node& container) {
  return std::ranges::all_of(std::array{"cpu", "memory"}, [&](const char* name) {
    const Node* limit = container.Walk({"resources", "limits", name});
    const Node* request = container.Walk({"resources", "requests", name});
    return limit != nullptr && (request == nullptr || request->text() == limit->text());
  });
}

// Kubelet gives exclusive cores only to the containers of Guaranteed pods.
void ValidateQuality(Validator& validator) {
  const Node* pod = validator.job.spec.template_.Find("spec");
  if (pod == nullptr || validator.local() ||
      validator.job.spec.topology.policy != TopologyPolicy::kRequired) {
    return;
  }
  if (pod->Find("resources") != nullptr) {
    validator.Error(kTemplatePath + ".spec.resources",
                    "remove it: if the pod has resources, kubelet gives no container its own "
                    "cores, which topology.policy Required needs");
  }
  for (const std::string_view list : {"containers", "initContainers"}) {
    const Node* containers = pod->Find(list);
    if (containers == nullptr) continue;
    for (const Node& container : containers->items()) {
      const Node* name = container.Find("name");
      if (IsGuaranteed(container) || (name != nullptr && name->text() == kWorkerContainer))
        continue;
      validator.Error(kTemplatePath + ".spec." + std::string(list),
                      "must each have limits of cpu and memory, and no other requests: "
                      "topology.policy Required needs a Guaranteed pod",
                      name == nullptr ? "" : name->Describe());
    }
  }
}

// By annotations of Kueue a pod asks for nodes near each other, which Kueue then chooses itself.
void ValidateKueuesTopology(Validator& validator) {
  const Node& pod_template = validator.job.spec.template_;
  const Node* metadata = pod_template.Find("metadata");
  const Node* annotations = metadata == nullptr ? nullptr : metadata->Find("annotations");
  if (annotations == nullptr) return;
  const auto asks = [](const NodeMember& annotation) {
    return annotation.key.starts_with("kueue.x-k8s.io/podset-") &&
           annotation.key.ends_with("-topology");
  };
  if (std::none_of(annotations->members().begin(), annotations->members().end(), asks)) return;
  if (validator.job.spec.elastic) {
    validator.Error("spec.elastic",
                    "must be absent with Kueue's topology annotations: if a machine has no other "
                    "node, Kueue takes the nodes of the whole gang");
  }
  if (validator.job.spec.spare_machines > 0) {
    validator.Error("spec.spareMachines",
                    "must be 0 with Kueue's topology annotations: Kueue chooses a lost machine's "
                    "next node, not a spare");
  }
}

}  // namespace

void ValidateTemplate(Validator& validator) {
  const Node& pod_template = validator.job.spec.template_;
  if (pod_template.IsNull()) return;
  if (!pod_template.IsMap()) {
    validator.Error(kTemplatePath, "must be a pod template: {metadata, spec}",
                    pod_template.Describe());
    return;
  }
  for (const NodeMember& member : pod_template.members()) {
    if (member.key == "metadata") {
      ValidateMetadata(validator, member.value);
    } else if (member.key == "spec") {
      ValidatePod(validator, member.value);
    } else {
      validator.Error(kTemplatePath, "holds the unknown field \"" + member.key +
                                         "\"; a pod template has metadata and spec");
    }
  }
  ValidateShortcuts(validator);
  ValidateQuality(validator);
  ValidateKueuesTopology(validator);
}

}  // namespace lockstep::core
