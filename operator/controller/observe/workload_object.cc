#include "operator/controller/observe/workload_object.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/fingerprint.h"
#include "base/text/ascii.h"
#include "base/text/json.h"
#include "core/model/names.h"
#include "operator/objects/object_parts.h"

namespace lockstep::control {
namespace {

constexpr const char* kWorkloadVersion = "kueue.x-k8s.io/v1beta2";
constexpr const char* kPodSet = "main";
constexpr const char* kDeactivated = "Deactivated";
constexpr const char* kMachineLabel = "lockstep.dev/machine";
constexpr const char* kTopologyGate = "kueue.x-k8s.io/topology";
// Annotations of pods.
constexpr const char* kWorkload = "kueue.x-k8s.io/workload";
constexpr const char* kUnconstrained = "kueue.x-k8s.io/podset-unconstrained-topology";
constexpr const char* kSliceSize = "kueue.x-k8s.io/podset-slice-size";
// Annotations of Workloads.
constexpr const char* kFirstSlice = "kueue.x-k8s.io/workload-slice-name";
constexpr const char* kReplacementFor = "kueue.x-k8s.io/workload-slice-replacement-for";
constexpr std::string_view kSliceMark = "-s";  // of a later slice's name, before its number

std::string LabelOf(const core::TrainingJob& job, const char* name) {
  const auto found = job.metadata.labels.find(name);
  return found == job.metadata.labels.end() ? "" : found->second;
}

// ---- reading ----

const Json kNothing = Json::object();

// The value at that place, if it is an object or a list.
const Json& In(const Json& object, std::initializer_list<const char*> path) {
  const Json* at = &object;
  for (const char* key : path) {
    if (!at->is_object() || !at->contains(key)) return kNothing;
    at = &at->at(key);
  }
  return *at;
}

std::string Text(const Json& object, const char* key) {
  const Json& text = In(object, {key});
  return text.is_string() ? text.get<std::string>() : "";
}

// The one whose `key` is `value`, of a list of objects.
const Json& One(const Json& list, const char* key, std::string_view value) {
  for (const Json& each : list) {
    if (each.is_object() && Text(each, key) == value) return each;
  }
  return kNothing;
}

const Json& ConditionOf(const Json& workload, const char* type) {
  const Json& conditions = In(workload, {"status", "conditions"});
  return conditions.is_array() ? One(conditions, "type", type) : kNothing;
}

bool IsTrue(const Json& workload, const char* type) {
  return Text(ConditionOf(workload, type), "status") == "True";
}

const Json& AssignmentOf(const Json& workload) {
  const Json& assignments = In(workload, {"status", "admission", "podSetAssignments"});
  return assignments.is_array() ? One(assignments, "name", kPodSet) : kNothing;
}

// The name that WorkloadName gave it.
uint32_t SliceOf(const std::string& name) {
  const size_t at = name.rfind(kSliceMark);
  if (at == std::string::npos) return 0;
  return ParseNumber<uint32_t>(name.substr(at + kSliceMark.size())).value_or(0);
}

// The condition that says why it is admitted, or is not.
const char* Telling(const WorkloadSeen& seen) {
  if (seen.evicted && seen.holds_quota) return "Evicted";
  return seen.admitted ? "Admitted" : "QuotaReserved";
}

int64_t Number(const Json& number, int64_t otherwise) {
  return number.is_number_integer() ? number.get<int64_t>() : otherwise;
}

// ---- conditions ----

// To the second, as Kubernetes writes them.
std::string Stamp(WallTime now) {
  return FormatWallTime(std::chrono::floor<std::chrono::seconds>(now));
}

void Put(Json& conditions, const char* type, bool holds, const std::string& reason,
         const std::string& message, int64_t generation, WallTime now) {
  const std::string status = holds ? "True" : "False";
  Json wanted = {{"type", type},
                 {"status", status},
                 {"reason", reason},
                 {"message", message},
                 {"observedGeneration", generation},
                 {"lastTransitionTime", Stamp(now)}};
  for (Json& condition : conditions) {
    if (Text(condition, "type") != type) continue;
    if (Text(condition, "status") == status) {
      wanted["lastTransitionTime"] = condition["lastTransitionTime"];
    }
    condition = std::move(wanted);
    return;
  }
  conditions.push_back(std::move(wanted));
}

// ---- patches ----

constexpr const char* kChanged = "the Workload has changed";

bool IsOfVersion(const Json& workload, const std::string& version) {
  return Text(In(workload, {"metadata"}), "resourceVersion") == version;
}

Json Unchanged(const std::string& version) {
  return {{"op", "test"}, {"path", "/metadata/resourceVersion"}, {"value", version}};
}

int64_t GenerationOf(const Json& workload) {
  return Number(In(workload, {"metadata", "generation"}), 0);
}

// How long it was admitted in all, where it may be only for so long.
std::optional<int64_t> SecondsAdmitted(const Json& workload, WallTime now) {
  if (In(workload, {"spec", "maximumExecutionTimeSeconds"}).empty()) return std::nullopt;
  const auto since = ParseWallTime(Text(ConditionOf(workload, "Admitted"), "lastTransitionTime"));
  if (!IsTrue(workload, "Admitted") || !since.ok()) return std::nullopt;
  const int64_t past = Number(In(workload, {"status", "accumulatedPastExecutionTimeSeconds"}), 0);
  return past + (now - *since) / std::chrono::seconds(1);
}

// ---- topology ----

// Annotations of the template that ask for nodes near each other, and what a Workload has for them.
struct TopologyWish {
  const char* annotation;
  const char* field;
};
constexpr TopologyWish kWishes[] = {
    {"kueue.x-k8s.io/podset-required-topology", "required"},
    {"kueue.x-k8s.io/podset-preferred-topology", "preferred"},
    {"kueue.x-k8s.io/podset-slice-required-topology", "podSetSliceRequiredTopology"},
};

// In the form that Kueue reads from its own jobs. Spares have no number, so with spares Kueue uses
// any of the job's nodes for any of its pods.
Result<Json> TopologyRequest(const core::TrainingJob& job) {
  const Json pod_template = FromNode(job.spec.template_);
  const Json& annotations = In(pod_template, {"metadata", "annotations"});
  Json request = Json::object();
  if (job.spec.spare_machines == 0) request["podIndexLabel"] = kMachineLabel;
  for (const auto& [annotation, field] : kWishes) {
    if (const std::string key = Text(annotations, annotation); !key.empty()) request[field] = key;
  }
  if (Text(annotations, kUnconstrained) == "true") request["unconstrained"] = true;
  if (const std::string text = Text(annotations, kSliceSize); !text.empty()) {
    const std::optional<int32_t> size = ParseNumber<int32_t>(text);
    if (!size) return Error::Invalid(std::string("annotation ") + kSliceSize + " is not a number");
    request["podSetSliceSize"] = *size;
  }
  return request;
}

// Kueue chooses a node for the pod, and then opens the gate. It looks only at pods that have one of
// these annotations.
void AwaitNode(Json& pod) {
  Json& annotations = ObjectAt(ObjectAt(pod, "metadata"), "annotations");
  const bool asks = std::any_of(std::begin(kWishes), std::end(kWishes), [&](const auto& wish) {
    return annotations.contains(wish.annotation);
  });
  if (!asks) annotations[kUnconstrained] = "true";
  ListAt(ObjectAt(pod, "spec"), "schedulingGates").push_back({{"name", kTopologyGate}});
}

// ---- admission ----

// Requirements of admission checks for the pods.
std::vector<Json> UpdatesOf(const Json& workload) {
  std::vector<Json> updates;
  const Json& checks = In(workload, {"status", "admissionChecks"});
  if (!checks.is_array()) return updates;
  for (const Json& check : checks) {
    const Json& of_sets = In(check, {"podSetUpdates"});
    if (!of_sets.is_array()) continue;
    if (const Json& update = One(of_sets, "name", kPodSet); !update.empty()) {
      updates.push_back(update);
    }
  }
  return updates;
}

// Puts `wanted` into the object at `key`. What stands there with another value: "KEY=VALUE".
std::string Merge(const Json& wanted, const char* key, Json& to) {
  if (!wanted.is_object() || wanted.empty()) return "";
  Json& object = ObjectAt(to, key);
  for (const auto& [name, value] : wanted.items()) {
    if (!IsUnset(object, name.c_str()) && object[name] != value) {
      return name + "=" + Text(object, name.c_str());
    }
    object[name] = value;
  }
  return "";
}

void Tolerate(const Json& wanted, Json& spec) {
  if (!wanted.is_array()) return;
  Json& tolerations = ListAt(spec, "tolerations");
  for (const Json& each : wanted) {
    if (std::find(tolerations.begin(), tolerations.end(), each) == tolerations.end()) {
      tolerations.push_back(each);
    }
  }
}

std::string Against(const std::string& who, const Json& wanted, const std::string& found) {
  return who + " wants pods on nodes with " + DumpJson(wanted) +
         ", and spec.template.spec.nodeSelector says " + found;
}

// "": they are in the pod.
std::string Apply(const Json& workload, const std::vector<std::string>& flavors, Json& pod) {
  Json& spec = ObjectAt(pod, "spec");
  for (const std::string& text : flavors) {
    const Json flavor = ParseJson(text);
    const Json& labels = In(flavor, {"spec", "nodeLabels"});
    if (const std::string found = Merge(labels, "nodeSelector", spec); !found.empty()) {
      return Against("flavor " + Text(In(flavor, {"metadata"}), "name"), labels, found);
    }
    Tolerate(In(flavor, {"spec", "tolerations"}), spec);
  }
  Json& metadata = ObjectAt(pod, "metadata");
  for (const Json& update : UpdatesOf(workload)) {
    const Json& labels = In(update, {"nodeSelector"});
    if (const std::string found = Merge(labels, "nodeSelector", spec); !found.empty()) {
      return Against("an admission check", labels, found);
    }
    Tolerate(In(update, {"tolerations"}), spec);
    for (const char* key : {"labels", "annotations"}) {
      const std::string found = Merge(In(update, {key}), key, metadata);
      if (!found.empty()) return std::string("an admission check contradicts the pod's ") + found;
    }
  }
  return "";
}

}  // namespace

std::string WorkloadName(std::string_view job, std::string_view uid, uint32_t slice) {
  constexpr char kDigits[] = "0123456789abcdef";
  uint64_t print = Fingerprint().Add(uid).value();
  std::string name = "trainingjob-" + std::string(job) + "-";
  for (int i = 0; i < 8; ++i, print >>= 4) name += kDigits[print & 15];
  if (slice > 0) name.append(kSliceMark).append(std::to_string(slice));
  return name;
}

std::string PrebuiltWorkload(const core::TrainingJob& job) {
  constexpr const char* kPrebuilt = "kueue.x-k8s.io/prebuilt-workload-name";
  const auto found = job.metadata.annotations.find(kPrebuilt);
  return found == job.metadata.annotations.end() ? LabelOf(job, kPrebuilt) : found->second;
}

Result<std::string> WorkloadObject(const core::TrainingJob& job, const MakeWorkload& make,
                                   const AgentDelivery& delivery) {
  const Result<std::string> counted = CountedTemplate(job, delivery);
  if (!counted.ok()) return counted.error();
  Json pod_set = {{"name", kPodSet}, {"count", make.pods}, {"template", ParseJson(*counted)}};
  Result<Json> topology = TopologyRequest(job);
  if (!topology.ok()) return topology.error();
  if (!topology->empty()) pod_set["topologyRequest"] = std::move(*topology);
  Json spec = {{"queueName", LabelOf(job, kQueueLabel)},
               {"active", true},
               {"podSets", Json::array({std::move(pod_set)})}};
  if (!make.priority_class.empty()) {
    spec["priorityClassRef"] = {
        {"group", make.of_queues ? "kueue.x-k8s.io" : "scheduling.k8s.io"},
        {"kind", make.of_queues ? "WorkloadPriorityClass" : "PriorityClass"},
        {"name", make.priority_class}};
    spec["priority"] = make.priority;
  }
  if (const std::string longest = LabelOf(job, kLongestLabel); !longest.empty()) {
    const std::optional<int32_t> seconds = ParseNumber<int32_t>(longest);
    if (!seconds || *seconds < 1) {
      return Error::Invalid(std::string("label ") + kLongestLabel + " is not a number of seconds");
    }
    spec["maximumExecutionTimeSeconds"] = *seconds;
  }
  Labels labels = core::JobLabels(job.metadata.name);
  labels["kueue.x-k8s.io/job-uid"] = job.metadata.uid;
  const std::string& name = job.metadata.name;
  Json metadata = MetadataOf(job, WorkloadName(name, job.metadata.uid, make.slice), labels);
  if (make.elastic) {
    metadata["annotations"] = {{kSliced, "true"},
                               {kFirstSlice, WorkloadName(name, job.metadata.uid)}};
  }
  if (!make.replaces.empty()) {
    metadata["annotations"][kReplacementFor] = job.metadata.name_space + "/" + make.replaces;
  }
  return DumpJson(Json{{"apiVersion", kWorkloadVersion},
                       {"kind", "Workload"},
                       {"metadata", std::move(metadata)},
                       {"spec", std::move(spec)}});
}

int32_t ReadPriority(const std::string& json) {
  return static_cast<int32_t>(Number(In(ParseJson(json), {"value"}), 0));
}

WorkloadSeen ReadWorkload(const std::string& json) {
  const Json workload = ParseJson(json);
  WorkloadSeen seen;
  const Json& metadata = In(workload, {"metadata"});
  seen.name = Text(metadata, "name");
  seen.uid = Text(metadata, "uid");
  seen.version = Text(metadata, "resourceVersion");
  seen.deleting = !Text(metadata, "deletionTimestamp").empty();
  seen.owned = !In(metadata, {"ownerReferences"}).empty();
  seen.elastic = Text(In(metadata, {"annotations"}), kSliced) == "true";
  seen.slice = SliceOf(seen.name);
  seen.queue = Text(In(workload, {"spec"}), "queueName");
  seen.active = In(workload, {"spec", "active"}) != Json(false);
  if (const Json& sets = In(workload, {"spec", "podSets"}); sets.is_array()) {
    seen.count = Number(In(One(sets, "name", kPodSet), {"count"}), 0);
  }
  const Json& admission = In(workload, {"status", "admission"});
  seen.admitted = IsTrue(workload, "Admitted");
  seen.evicted = IsTrue(workload, "Evicted");
  if (const auto at = ParseWallTime(Text(ConditionOf(workload, "Evicted"), "lastTransitionTime"));
      at.ok()) {
    seen.evicted_at = *at;
  }
  seen.finished = IsTrue(workload, "Finished");
  seen.replaced =
      seen.finished && Text(ConditionOf(workload, "Finished"), "reason") == "WorkloadSliceReplaced";
  seen.holds_quota = seen.admitted || !admission.empty() || IsTrue(workload, "QuotaReserved");
  seen.waits = Text(ConditionOf(workload, "QuotaReserved"), "status") == "False";
  if (const Json& ready = ConditionOf(workload, "PodsReady"); !ready.empty()) {
    seen.pods_ready = Text(ready, "status") == "True";
    seen.recovers = Text(ready, "reason") == "WaitForRecovery";
  }
  const Json& telling = ConditionOf(workload, Telling(seen));
  seen.reason = Text(telling, "reason");
  seen.message = Text(telling, "message");
  if (seen.holds_quota && !seen.admitted && !seen.evicted) {
    seen.message = "it has its quota and waits for admission checks";
  }
  seen.cluster_queue = Text(admission, "clusterQueue");
  for (const auto& [resource, flavor] : In(AssignmentOf(workload), {"flavors"}).items()) {
    if (flavor.is_string()) seen.flavors[resource] = flavor.get<std::string>();
  }
  return seen;
}

std::string WorkloadCondition(const std::string& json, const TellWorkload& tell, WallTime now) {
  const Json workload = ParseJson(json);
  Json conditions = Json::array();
  for (const std::string& type : std::set<std::string>{"PodsReady", tell.type}) {
    if (const Json& last = ConditionOf(workload, type.c_str()); !last.empty()) {
      conditions.push_back(last);
    }
  }
  Put(conditions, tell.type.c_str(), tell.holds, tell.reason, tell.message, GenerationOf(workload),
      now);
  return DumpJson(Json{{"apiVersion", kWorkloadVersion},
                       {"kind", "Workload"},
                       {"metadata", {{"name", tell.name}, {"uid", tell.uid}}},
                       {"status", {{"conditions", std::move(conditions)}}}});
}

Result<std::string> WorkloadResize(const std::string& json, const ResizeWorkload& resize) {
  const Json workload = ParseJson(json);
  if (!IsOfVersion(workload, resize.version)) return Error::Conflict(kChanged);
  const Json& sets = In(workload, {"spec", "podSets"});
  for (size_t i = 0; sets.is_array() && i < sets.size(); ++i) {
    if (Text(sets[i], "name") != kPodSet) continue;
    return DumpJson(Json::array({Unchanged(resize.version),
                                 {{"op", "replace"},
                                  {"path", "/spec/podSets/" + std::to_string(i) + "/count"},
                                  {"value", resize.pods}}}));
  }
  return Error::NotFound("the Workload has no pods");
}

Result<std::string> WorkloadRelease(const std::string& json, const ReleaseWorkload& release,
                                    WallTime now) {
  const Json workload = ParseJson(json);
  if (!IsOfVersion(workload, release.version)) return Error::Conflict(kChanged);
  const Json& evicted = ConditionOf(workload, "Evicted");
  std::string why = Text(evicted, "reason");
  // DeactivatedDueToAdmissionCheck and the like: Kueue queues it again once it is active, but only
  // for this word.
  if (why.starts_with(kDeactivated)) why = kDeactivated;
  const std::string message = Text(evicted, "message");
  const int64_t generation = GenerationOf(workload);
  Json conditions = In(workload, {"status", "conditions"});
  // Like Kueue's own jobs: the job did not cause these two, so it is queued again at once.
  const bool again = why == "Preempted" || why == "NodeFailures";
  Put(conditions, "Requeued", again, why, message, generation, now);
  Put(conditions, "QuotaReserved", false, "Pending", message, generation, now);
  Put(conditions, "Admitted", false, "NoReservation", "The workload has no reservation", generation,
      now);
  Put(conditions, "PodsReady", false, "WaitForStart", "", generation, now);
  Json patch = Json::array(
      {Unchanged(release.version),
       {{"op", "replace"}, {"path", "/status/conditions"}, {"value", std::move(conditions)}}});
  if (!In(workload, {"status", "admission"}).empty()) {
    patch.push_back({{"op", "remove"}, {"path", "/status/admission"}});
  }
  if (const std::optional<int64_t> seconds = SecondsAdmitted(workload, now)) {
    patch.push_back({{"op", "add"},
                     {"path", "/status/accumulatedPastExecutionTimeSeconds"},
                     {"value", *seconds}});
  }
  return DumpJson(patch);
}

Result<std::string> WorkloadAdoption(const std::string& json, const AdoptWorkload& adopt,
                                     const core::TrainingJob& job) {
  if (!IsOfVersion(ParseJson(json), adopt.version)) return Error::Conflict(kChanged);
  return DumpJson(Json::array(
      {Unchanged(adopt.version),
       {{"op", "add"}, {"path", "/metadata/ownerReferences"}, {"value", OwnersOf(job)}}}));
}

std::string AdmissionConflict(const core::TrainingJob& job, const std::string& workload,
                              const std::vector<std::string>& flavors) {
  try {
    Json pod = FromNode(job.spec.template_);
    if (pod.is_null()) pod = Json::object();
    return Apply(ParseJson(workload), flavors, pod);
  } catch (const Json::exception&) {
    return "";  // Validate has a word for it
  }
}

Result<std::string> AdmittedPod(const std::string& pod, const std::string& workload,
                                const std::vector<std::string>& flavors) {
  Json admitted = ParseJson(pod);
  const Json admission = ParseJson(workload);
  if (std::string conflict = Apply(admission, flavors, admitted); !conflict.empty()) {
    return Error::Invalid(conflict);
  }
  Json& metadata = ObjectAt(admitted, "metadata");
  ObjectAt(metadata, "labels")["kueue.x-k8s.io/podset"] = kPodSet;
  ObjectAt(metadata, "annotations")[kWorkload] = Text(In(admission, {"metadata"}), "name");
  if (!In(AssignmentOf(admission), {"topologyAssignment"}).empty()) AwaitNode(admitted);
  return DumpJson(admitted);
}

}  // namespace lockstep::control
