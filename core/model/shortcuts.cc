#include "core/model/shortcuts.h"

#include <array>
#include <string_view>

namespace lockstep::core {
namespace {

constexpr std::array<std::string_view, 6> kOfContainer = {"image",      "command", "args",
                                                          "workingDir", "env",     "envFrom"};
constexpr std::array<std::string_view, 3> kOfPod = {"imagePullSecrets", "priorityClassName",
                                                    "schedulerName"};

Node* WorkerIn(Node* pod) {
  Node* containers = pod == nullptr ? nullptr : pod->Find("containers");
  if (containers == nullptr || !containers->IsList()) return nullptr;
  for (Node& container : containers->items()) {
    const Node* name = container.Find("name");
    if (name != nullptr && name->text() == kWorkerContainer) return &container;
  }
  return nullptr;
}

Node* PodIn(Node* pod_template) {
  return pod_template == nullptr ? nullptr : pod_template->Find("spec");
}

void Lift(Node& from, std::string_view key, Node& spec) {
  const Node* value = from.Find(key);
  if (value == nullptr || value->IsNull()) return;
  if (const Node* said = spec.Find(key); said != nullptr && !said->IsNull()) return;
  Node copy = *value;
  from.Erase(key);
  spec.Erase(key);
  spec.Add(std::string(key), std::move(copy));
}

}  // namespace

void LiftShortcuts(Node& document) {
  Node* spec = document.Find("spec");
  if (spec == nullptr || !spec->IsMap()) return;
  // Lift adds members to the spec, which may move them in memory; so the source is looked up again
  // each time.
  const auto pod = [&] { return PodIn(spec->Find("template")); };
  for (const std::string_view key : kOfContainer) {
    Node* worker = WorkerIn(pod());
    if (worker == nullptr) break;
    Lift(*worker, key, *spec);
  }
  for (const std::string_view key : kOfPod) {
    if (Node* of_pod = pod()) Lift(*of_pod, key, *spec);
  }
}

std::vector<DoubledShortcut> DoubledShortcuts(const Spec& spec) {
  std::vector<DoubledShortcut> doubled;
  const Node* pod = spec.template_.Find("spec");
  const Node* worker = WorkerContainer(spec);
  for (const std::string_view key : kOfContainer) {
    if (worker != nullptr && worker->Find(key) != nullptr) {
      doubled.push_back({std::string(key), "worker container"});
    }
  }
  for (const std::string_view key : kOfPod) {
    if (pod != nullptr && pod->Find(key) != nullptr) {
      doubled.push_back({std::string(key), "pod"});
    }
  }
  return doubled;
}

const Node* WorkerContainer(const Spec& spec) {
  return WorkerIn(const_cast<Node*>(spec.template_.Find("spec")));
}

const Node* WorkerClaims(const Spec& spec) {
  const Node* worker = WorkerContainer(spec);
  const Node* claims = worker == nullptr ? nullptr : worker->Walk({"resources", "claims"});
  return claims == nullptr || claims->items().empty() ? nullptr : claims;
}

bool AsksForGpus(const Spec& spec) {
  return spec.resources_per_process.gpu.value_or(0) > 0 || WorkerClaims(spec) != nullptr;
}

bool UsesGpus(const Spec& spec) {
  return AsksForGpus(spec) || (spec.trainer && spec.trainer->device == Device::kCuda);
}

}  // namespace lockstep::core
