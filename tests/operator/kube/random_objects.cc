#include "tests/operator/kube/random_objects.h"

#include <array>
#include <utility>

namespace lockstep::kube {

using Json = RandomObjects::Json;

Json RandomObjects::Pod() {
  Json pod;
  if (OneIn(2)) pod["kind"] = "Pod";
  pod["metadata"] = Metadata("pod");
  pod["spec"] = {{"containers", {{{"name", "worker"}, {"image", Text()}, {"args", {Text()}}}}}};
  pod["spec"]["nodeName"] = Maybe("node-" + std::to_string(Below(50)));
  constexpr std::array kPhases = {"Pending", "Running", "Succeeded", "Failed", "Unknown", "Other"};
  Json& status = pod["status"];
  status["phase"] = Maybe(kPhases.at(static_cast<size_t>(Below(6))));
  status["podIP"] = Maybe("10.0.0." + std::to_string(Below(256)));
  status["hostIP"] = Maybe("10.1.0." + std::to_string(Below(256)));
  if (OneIn(3)) status["reason"] = Maybe("Evicted");
  if (OneIn(3)) status["message"] = Maybe(Text());
  for (const char* type :
       {"PodScheduled", "Ready", "DisruptionTarget", "PodReadyToStartContainers", "Initialized"}) {
    if (!OneIn(3)) status["conditions"].push_back(Maybe(Condition(type)));
  }
  for (const char* name : {"sidecar", "worker"}) {
    if (!OneIn(3)) status["containerStatuses"].push_back(Maybe(Container(name)));
  }
  for (const char* name : {"agent", "data"}) {
    if (!OneIn(3)) status["initContainerStatuses"].push_back(Maybe(Container(name)));
  }
  return pod;
}

Json RandomObjects::TrainingJob() {
  Json job = {{"apiVersion", "lockstep.dev/v1alpha1"}, {"kind", "TrainingJob"}};
  job["metadata"] = Metadata("job");
  job["spec"] = {{"numMachines", Below(9)}, {"env", {{{"name", Text()}, {"value", Text()}}}}};
  job["status"] = {{"reason", Text()}, {"epoch", Below(9)}};
  return job;
}

Json RandomObjects::Service() {
  Json service = {{"metadata", Metadata("service")}};
  service["spec"]["clusterIP"] = Maybe(OneIn(2) ? "None" : "10.96.0.7");
  if (!OneIn(3)) {
    service["spec"]["selector"] = {{"lockstep.dev/job", "j"},
                                   {"lockstep.dev/attempt", Maybe(std::to_string(Below(9)))}};
  }
  return service;
}

Json RandomObjects::Slice() {
  Json slice = {{"metadata", Metadata("slice")}, {"addressType", "IPv4"}};
  for (int i = Below(4); i > 0; --i) {
    Json endpoint = {{"addresses", {Maybe(Text()), Text()}}, {"conditions", {{"ready", true}}}};
    if (!OneIn(3)) endpoint["targetRef"] = Maybe({{"kind", "Pod"}, {"uid", Maybe(Text())}});
    slice["endpoints"].push_back(Maybe(endpoint));
  }
  return slice;
}

Json RandomObjects::Node() {
  Json node = {{"metadata", Metadata("node")}};
  if (OneIn(2)) node["spec"]["unschedulable"] = Maybe(OneIn(2));
  for (const char* taint : {"unreachable", "out-of-service", "not-ready"}) {
    if (OneIn(2)) {
      node["spec"]["taints"].push_back(
          Maybe({{"key", Maybe(std::string("node.kubernetes.io/") + taint)}, {"effect", Text()}}));
    }
  }
  node["status"]["conditions"] = {Condition("MemoryPressure"), Condition("Ready")};
  if (OneIn(2)) {
    node["status"]["allocatable"] = Maybe({{"cpu", Maybe("15890m")},
                                           {"memory", Maybe(std::to_string(Below(99)) + "Gi")},
                                           {"nvidia.com/gpu", Maybe("8")}});
  }
  return node;
}

Json RandomObjects::Maybe(Json value) {
  if (Below(100) >= odd_) return value;
  switch (Below(6)) {
    case 0:
      return nullptr;
    case 1:
      return Below(1000);
    case 2:
      return Text();
    case 3:
      return Json::array({1, "x", nullptr});
    case 4:
      return OneIn(2);
    default:
      return {{"a", {{"b", 1.5}}}};
  }
}

std::string RandomObjects::Text() {
  constexpr std::array kPieces = {
      "a",  "Z",  " ", "\"", "\\", "\n", "\x01", "é", "\xF0\x9F\x9A\x80", "managedFields",
      "}]", "<&>"};
  std::string text;
  for (int i = Below(12); i > 0; --i) text += kPieces.at(static_cast<size_t>(Below(12)));
  return text;
}

std::string RandomObjects::Time() {
  return "2026-11-21T0" + std::to_string(Below(10)) + ":0" + std::to_string(Below(10)) + ":12Z";
}

Json RandomObjects::Metadata(const std::string& prefix) {
  Json meta;
  meta["name"] = prefix + "-" + std::to_string(Below(1000));
  if (OneIn(2)) meta["managedFields"] = Maybe(ManagedFields());
  meta["namespace"] = Maybe("default");
  meta["uid"] = Maybe("5c1f3f0e-0000-4000-8000-" + std::to_string(100000 + Below(900000)));
  meta["resourceVersion"] = Maybe(std::to_string(1 + Below(100000)));
  meta["generation"] = Maybe(Below(100));
  meta["creationTimestamp"] = Maybe(Time());
  if (OneIn(4)) meta["deletionTimestamp"] = Maybe(Time());
  if (!OneIn(4)) {
    meta["labels"] = Maybe({{"app.kubernetes.io/name", Text()},
                            {"lockstep.dev/job", Maybe("gpt")},
                            {"lockstep.dev/machine", Maybe(std::to_string(Below(2000)))},
                            {"lockstep.dev/attempt", Maybe(std::to_string(Below(10)))}});
  }
  if (!OneIn(4)) {
    meta["ownerReferences"].push_back({{"uid", Text()}});
    meta["ownerReferences"].push_back(
        Maybe({{"controller", Maybe(true)}, {"kind", "TrainingJob"}, {"uid", Maybe("owner-1")}}));
  }
  if (OneIn(3)) meta["managedFields"] = Maybe(ManagedFields());
  return meta;
}

Json RandomObjects::ManagedFields() {
  Json fields = Json::array();
  for (int i = Below(3); i > 0; --i) {
    fields.push_back({{"manager", Text()}, {"fieldsV1", {{"f:spec", {{Text(), Json::object()}}}}}});
  }
  return fields;
}

Json RandomObjects::Container(const std::string& name) {
  Json container = {{"ready", OneIn(2)}, {"state", Maybe(State())}, {"lastState", State()}};
  container["name"] = Maybe(name);
  return container;
}

Json RandomObjects::State() {
  switch (Below(4)) {
    case 0:
      return {{"waiting", Maybe({{"reason", Maybe("ImagePullBackOff")}, {"message", Text()}})}};
    case 1:
      return {{"running", Maybe({{"startedAt", Maybe(Time())}})}};
    case 2:
      return {{"terminated",
               {{"exitCode", Maybe(Below(256))},
                {"signal", Maybe(Below(64))},
                {"reason", Maybe("Error")},
                {"message", Maybe(Text())},
                {"startedAt", Maybe(Time())},
                {"finishedAt", Maybe(Time())}}}};
    default:
      return Json::object();
  }
}

Json RandomObjects::Condition(const std::string& type) {
  constexpr std::array kStatuses = {"True", "False", "Unknown"};
  return {{"lastTransitionTime", nullptr},
          {"message", Maybe(Text())},
          {"reason", Maybe(Text())},
          {"status", Maybe(kStatuses.at(static_cast<size_t>(Below(3))))},
          {"type", Maybe(type)}};
}

}  // namespace lockstep::kube
