#include "operator/controller/observe/workload_object.h"

#include "tests/operator/objects/pod_fixture.h"

namespace lockstep::control {
namespace {

core::TrainingJob Queued() {
  core::TrainingJob job = MakeJob("gpt").Machines(4).Processes(8).Gpus(1);
  job.metadata.labels[kQueueLabel] = "lq";
  return job;
}

json Workload(const core::TrainingJob& job, const MakeWorkload& make) {
  const Result<std::string> body = WorkloadObject(job, make, {});
  if (!body.ok()) {
    ADD_FAILURE() << body.error().message;
    return json::object();
  }
  return json::parse(*body);
}

MakeWorkload Pods(int64_t pods) {
  MakeWorkload make;
  make.pods = pods;
  return make;
}

// As Kueue leaves one that it pushed out.
json Evicted() {
  return json::parse(R"({
    "metadata": {"name": "w", "uid": "u", "resourceVersion": "7", "generation": 2},
    "spec": {"queueName": "lq", "active": true, "podSets": [{"name": "main", "count": 4}]},
    "status": {
      "admission": {"clusterQueue": "cq", "podSetAssignments": [
        {"name": "main", "count": 4, "flavors": {"cpu": "a3", "nvidia.com/gpu": "a3"}}]},
      "conditions": [
        {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "message": "",
         "lastTransitionTime": "2026-01-01T00:00:00Z"},
        {"type": "Admitted", "status": "True", "reason": "Admitted", "message": "",
         "lastTransitionTime": "2026-01-01T00:00:00Z"},
        {"type": "PodsReady", "status": "True", "reason": "Started", "message": "",
         "lastTransitionTime": "2026-01-01T00:00:00Z"},
        {"type": "Evicted", "status": "True", "reason": "Preempted", "message": "by w2",
         "lastTransitionTime": "2026-01-01T00:10:00Z"}]}})");
}

json ConditionIn(const json& conditions, const std::string& type) {
  for (const json& each : conditions) {
    if (each["type"] == type) return each;
  }
  return nullptr;
}

const WallTime kNow = *ParseWallTime("2026-01-01T01:00:00.5Z");

TEST(WorkloadObject, IsTheJobsPodsAsKueueCountsThem) {
  const core::TrainingJob job = Queued();
  const json workload = Workload(job, Pods(4));
  EXPECT_EQ(workload["apiVersion"], "kueue.x-k8s.io/v1beta2");
  EXPECT_EQ(workload["metadata"]["labels"]["lockstep.dev/job"], "gpt");
  EXPECT_EQ(workload["metadata"]["labels"]["kueue.x-k8s.io/job-uid"], job.metadata.uid);
  EXPECT_EQ(workload["metadata"]["ownerReferences"][0]["uid"], job.metadata.uid);
  EXPECT_EQ(workload["spec"]["queueName"], "lq");
  EXPECT_FALSE(workload["spec"].contains("priority"));
  const json& set = workload["spec"]["podSets"][0];
  EXPECT_EQ(set["name"], "main");
  EXPECT_EQ(set["count"], 4);
  const json& spec = set["template"]["spec"];
  const json worker = Named(spec["containers"], "worker");
  EXPECT_EQ(worker["resources"]["requests"]["nvidia.com/gpu"], "8");
  EXPECT_FALSE(worker.contains("env"));
  EXPECT_FALSE(worker.contains("command"));
  EXPECT_FALSE(spec.contains("volumes"));
  EXPECT_EQ(spec["restartPolicy"], "Never");
}

TEST(WorkloadObject, AsksForTheSameAsThePodsDo) {
  const core::TrainingJob job = Queued();
  const json pod = Pod(job);
  const json counted = Workload(job, Pods(4))["spec"]["podSets"][0]["template"]["spec"];
  for (const char* list : {"containers", "initContainers"}) {
    ASSERT_EQ(counted[list].size(), pod["spec"][list].size());
    for (const json& container : pod["spec"][list]) {
      EXPECT_EQ(Named(counted[list], container["name"]).value("resources", json()),
                container.value("resources", json()));
    }
  }
}

TEST(WorkloadObject, HasThePriorityOfItsClass) {
  MakeWorkload make = Pods(4);
  make.priority_class = "high";
  make.of_queues = true;
  make.priority = ReadPriority(R"({"value": 1000})");
  const json spec = Workload(Queued(), make)["spec"];
  EXPECT_EQ(spec["priority"], 1000);
  EXPECT_EQ(spec["priorityClassRef"]["kind"], "WorkloadPriorityClass");
  EXPECT_EQ(spec["priorityClassRef"]["name"], "high");
}

TEST(WorkloadObject, ALongestTimeThatIsNoNumberIsRefused) {
  core::TrainingJob job = Queued();
  job.metadata.labels[kLongestLabel] = "600";
  EXPECT_EQ(Workload(job, Pods(4))["spec"]["maximumExecutionTimeSeconds"], 600);
  for (const char* wrong : {"10m", "0", "-1"}) {
    job.metadata.labels[kLongestLabel] = wrong;
    EXPECT_FALSE(WorkloadObject(job, Pods(4), {}).ok()) << wrong;
  }
}

TEST(WorkloadObject, EachJobOfANameHasAnother) {
  EXPECT_EQ(WorkloadName("gpt", "a"), WorkloadName("gpt", "a"));
  EXPECT_NE(WorkloadName("gpt", "a"), WorkloadName("gpt", "b"));
  EXPECT_TRUE(WorkloadName("gpt", "a").starts_with("trainingjob-gpt-"));
}

TEST(WorkloadObject, ASliceNamesTheOneThatItReplaces) {
  const core::TrainingJob job = Queued();
  MakeWorkload make = Pods(4);
  EXPECT_FALSE(Workload(job, make)["metadata"].contains("annotations"));
  make.elastic = true;
  const json first = Workload(job, make)["metadata"];
  EXPECT_EQ(first["annotations"], json({{"kueue.x-k8s.io/elastic-job", "true"},
                                        {"kueue.x-k8s.io/workload-slice-name", first["name"]}}));
  make.slice = 12;
  make.replaces = first["name"];
  const json growth = Workload(job, make);
  const json& metadata = growth["metadata"];
  EXPECT_EQ(metadata["name"], first["name"].get<std::string>() + "-s12");
  EXPECT_EQ(metadata["annotations"]["kueue.x-k8s.io/workload-slice-name"], first["name"]);
  EXPECT_EQ(metadata["annotations"]["kueue.x-k8s.io/workload-slice-replacement-for"],
            "team/" + first["name"].get<std::string>());
  const WorkloadSeen seen = ReadWorkload(growth.dump());
  EXPECT_EQ(seen.slice, 12U);
  EXPECT_TRUE(seen.elastic);
  EXPECT_EQ(ReadWorkload(Workload(job, Pods(4)).dump()).slice, 0U);
  EXPECT_EQ(ReadWorkload(R"({"metadata": {"name": "trainingjob-a-s1-1b9d6bcd"}})").slice, 0U);
}

TEST(WorkloadObject, OneThatALargerReplacesIsReadAsSuch) {
  json workload = Evicted();
  json& conditions = workload["status"]["conditions"];
  conditions.push_back({{"type", "Finished"}, {"status", "True"}, {"reason", "Succeeded"}});
  EXPECT_TRUE(ReadWorkload(workload.dump()).finished);
  EXPECT_FALSE(ReadWorkload(workload.dump()).replaced);
  conditions.back()["reason"] = "WorkloadSliceReplaced";
  EXPECT_TRUE(ReadWorkload(workload.dump()).replaced);
}

TEST(WorkloadObject, IsResizedAsItWasDecidedOn) {
  const json workload = Evicted();
  const Result<std::string> patch = WorkloadResize(workload.dump(), {"w", "7", 3});
  ASSERT_TRUE(patch.ok());
  EXPECT_EQ(workload.patch(json::parse(*patch))["spec"]["podSets"][0]["count"], 3);
  EXPECT_EQ(WorkloadResize(workload.dump(), {"w", "6", 3}).error().kind, ErrorKind::kConflict);
  EXPECT_FALSE(WorkloadResize(R"({"metadata": {"resourceVersion": "7"}})", {"w", "7", 3}).ok());
}

TEST(WorkloadObject, IsReadAsItStands) {
  const WorkloadSeen seen = ReadWorkload(Evicted().dump());
  EXPECT_FALSE(seen.owned);
  EXPECT_EQ(FormatWallTime(seen.evicted_at), "2026-01-01T00:10:00Z");
  EXPECT_EQ(seen.version, "7");
  EXPECT_EQ(seen.queue, "lq");
  EXPECT_EQ(seen.count, 4);
  EXPECT_TRUE(seen.admitted && seen.evicted && seen.holds_quota && seen.active);
  EXPECT_FALSE(seen.waits || seen.finished || seen.deleting);
  EXPECT_EQ(seen.pods_ready, true);
  EXPECT_EQ(seen.reason, "Preempted");
  EXPECT_EQ(seen.message, "by w2");
  EXPECT_EQ(seen.cluster_queue, "cq");
  EXPECT_EQ(seen.flavors.at("cpu"), "a3");
}

TEST(WorkloadObject, WhatIsNoWorkloadIsReadAsNothing) {
  for (const char* text : {"", "7", "[]", "{}", R"({"status": 7, "spec": []})",
                           R"({"status": {"conditions": {"a": 1}, "admission": []}})",
                           R"({"status": {"conditions": [7, {"type": 7}]}})"}) {
    const WorkloadSeen seen = ReadWorkload(text);
    EXPECT_FALSE(seen.admitted || seen.evicted || seen.holds_quota) << text;
    EXPECT_TRUE(seen.active) << text;
  }
}

TEST(WorkloadRelease, GivesBackWhatItHoldsAndIsQueuedAgain) {
  const auto text = WorkloadRelease(Evicted().dump(), {"w", "7"}, kNow);
  ASSERT_TRUE(text.ok());
  const json patch = json::parse(*text);
  ASSERT_EQ(patch.size(), 3U);
  EXPECT_EQ(patch[0],
            json::parse(R"({"op": "test", "path": "/metadata/resourceVersion", "value": "7"})"));
  EXPECT_EQ(patch[2], json::parse(R"({"op": "remove", "path": "/status/admission"})"));
  const json& conditions = patch[1]["value"];
  EXPECT_EQ(ConditionIn(conditions, "Requeued")["status"], "True");
  EXPECT_EQ(ConditionIn(conditions, "Requeued")["reason"], "Preempted");
  EXPECT_EQ(ConditionIn(conditions, "QuotaReserved")["reason"], "Pending");
  EXPECT_EQ(ConditionIn(conditions, "QuotaReserved")["lastTransitionTime"], "2026-01-01T01:00:00Z");
  EXPECT_EQ(ConditionIn(conditions, "Admitted")["status"], "False");
  // Else a second run would count as ready from its beginning.
  EXPECT_EQ(ConditionIn(conditions, "PodsReady")["reason"], "WaitForStart");
  EXPECT_EQ(ConditionIn(conditions, "Evicted")["lastTransitionTime"], "2026-01-01T00:10:00Z");
}

TEST(WorkloadRelease, WhatWasTheJobsOwnFaultIsQueuedAgainByKueuesBackoff) {
  json workload = Evicted();
  workload["status"]["conditions"][3]["reason"] = "PodsReadyTimeout";
  const json patch = json::parse(*WorkloadRelease(workload.dump(), {"w", "7"}, kNow));
  EXPECT_EQ(ConditionIn(patch[1]["value"], "Requeued")["status"], "False");
}

TEST(WorkloadRelease, WhatKueueDeactivatedIsQueuedOnceItIsActive) {
  json workload = Evicted();
  workload["status"]["conditions"][3]["reason"] = "DeactivatedDueToAdmissionCheck";
  const json patch = json::parse(*WorkloadRelease(workload.dump(), {"w", "7"}, kNow));
  EXPECT_EQ(ConditionIn(patch[1]["value"], "Requeued")["reason"], "Deactivated");
}

TEST(WorkloadRelease, AnotherVersionIsNotReleased) {
  EXPECT_FALSE(WorkloadRelease(Evicted().dump(), {"w", "8"}, kNow).ok());
}

TEST(WorkloadRelease, TheTimeThatItWasAdmittedIsCounted) {
  json workload = Evicted();
  workload["spec"]["maximumExecutionTimeSeconds"] = 7200;
  workload["status"]["accumulatedPastExecutionTimeSeconds"] = 100;
  const json patch = json::parse(*WorkloadRelease(workload.dump(), {"w", "7"}, kNow));
  ASSERT_EQ(patch.size(), 4U);
  EXPECT_EQ(patch[3]["value"], 3700);
}

TEST(WorkloadAdoption, TheJobBecomesItsController) {
  core::TrainingJob job = MakeJob("gpt");
  job.metadata.uid = "uid-job";
  json patch = json::parse(*WorkloadAdoption(Evicted().dump(), {"w", "7"}, job));
  ASSERT_EQ(patch.size(), 2U);
  EXPECT_EQ(patch[0]["op"], "test");
  EXPECT_EQ(patch[0]["value"], "7");
  EXPECT_EQ(patch[1]["path"], "/metadata/ownerReferences");
  ASSERT_EQ(patch[1]["value"].size(), 1U);
  EXPECT_EQ(patch[1]["value"][0]["uid"], "uid-job");
  EXPECT_EQ(patch[1]["value"][0]["controller"], true);
  EXPECT_FALSE(WorkloadAdoption(Evicted().dump(), {"w", "8"}, job).ok());
}

TEST(WorkloadCondition, ChangesItsTimeOnlyWithItsStatus) {
  const TellWorkload again{.name = "w",
                           .uid = "u",
                           .type = "PodsReady",
                           .holds = true,
                           .reason = "Recovered",
                           .message = ""};
  json told = json::parse(WorkloadCondition(Evicted().dump(), again, kNow));
  EXPECT_EQ(told["metadata"], json::parse(R"({"name": "w", "uid": "u"})"));
  ASSERT_EQ(told["status"]["conditions"].size(), 1U);
  EXPECT_EQ(told["status"]["conditions"][0]["lastTransitionTime"], "2026-01-01T00:00:00Z");
  EXPECT_EQ(told["status"]["conditions"][0]["observedGeneration"], 2);
  TellWorkload lost = again;
  lost.holds = false;
  told = json::parse(WorkloadCondition(Evicted().dump(), lost, kNow));
  EXPECT_EQ(told["status"]["conditions"][0]["lastTransitionTime"], "2026-01-01T01:00:00Z");
}

TEST(WorkloadCondition, LeavesPodsReadyAsItIs) {
  const TellWorkload end{.name = "w",
                         .uid = "u",
                         .type = "Finished",
                         .holds = true,
                         .reason = "Succeeded",
                         .message = ""};
  const json told = json::parse(WorkloadCondition(Evicted().dump(), end, kNow));
  const json& conditions = told["status"]["conditions"];
  EXPECT_EQ(conditions.size(), 2U);
  EXPECT_EQ(ConditionIn(conditions, "PodsReady"),
            ConditionIn(Evicted()["status"]["conditions"], "PodsReady"));
  EXPECT_EQ(ConditionIn(conditions, "Finished")["lastTransitionTime"], "2026-01-01T01:00:00Z");
}

constexpr const char* kFlavor = R"({"metadata": {"name": "a3"}, "spec": {
  "nodeLabels": {"pool": "a3"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]}})";

TEST(AdmittedPod, HasWhatItsFlavorsAndChecksAskFor) {
  json workload = Evicted();
  workload["status"]["admissionChecks"] = json::parse(R"([{"name": "dws", "podSetUpdates": [
    {"name": "main", "annotations": {"consume": "request-1"}, "nodeSelector": {"zone": "b"}}]}])");
  const auto text = AdmittedPod(Pod(Queued()).dump(), workload.dump(), {kFlavor});
  ASSERT_TRUE(text.ok()) << text.error().message;
  const json pod = json::parse(*text);
  EXPECT_EQ(pod["spec"]["nodeSelector"], json::parse(R"({"pool": "a3", "zone": "b"})"));
  EXPECT_EQ(pod["spec"]["tolerations"][0]["key"], "gpu");
  EXPECT_EQ(pod["metadata"]["annotations"]["consume"], "request-1");
  EXPECT_EQ(pod["metadata"]["annotations"]["kueue.x-k8s.io/workload"], "w");
  EXPECT_EQ(pod["metadata"]["labels"]["kueue.x-k8s.io/podset"], "main");
  EXPECT_FALSE(pod["metadata"]["labels"].contains(kQueueLabel));
}

TEST(AdmittedPod, ATemplateForOtherNodesIsAConflict) {
  core::TrainingJob job = Queued();
  EXPECT_EQ(AdmissionConflict(job, Evicted().dump(), {kFlavor}), "");
  job = MakeJob("gpt").Template("spec: {nodeSelector: {pool: other}}");
  const std::string conflict = AdmissionConflict(job, Evicted().dump(), {kFlavor});
  EXPECT_NE(conflict.find("flavor a3"), std::string::npos);
  EXPECT_NE(conflict.find("pool=other"), std::string::npos);
  EXPECT_FALSE(AdmittedPod(Pod(job).dump(), Evicted().dump(), {kFlavor}).ok());
}

TEST(WorkloadObject, AsksForNodesNearEachOtherAsItsTemplateDoes) {
  const auto asked = [](const std::string& annotations) {
    core::TrainingJob job =
        MakeJob("gpt").Machines(4).Template("metadata: {annotations: {" + annotations + "}}");
    return Workload(job, Pods(4))["spec"]["podSets"][0]["topologyRequest"];
  };
  EXPECT_EQ(asked(""), json::parse(R"({"podIndexLabel": "lockstep.dev/machine"})"));
  EXPECT_EQ(asked("kueue.x-k8s.io/podset-required-topology: rack")["required"], "rack");
  EXPECT_EQ(asked("kueue.x-k8s.io/podset-preferred-topology: rack")["preferred"], "rack");
  EXPECT_EQ(asked("kueue.x-k8s.io/podset-unconstrained-topology: 'true'")["unconstrained"], true);
  const json sliced = asked(
      "kueue.x-k8s.io/podset-slice-required-topology: rack, kueue.x-k8s.io/podset-slice-size: '2'");
  EXPECT_EQ(sliced["podSetSliceRequiredTopology"], "rack");
  EXPECT_EQ(sliced["podSetSliceSize"], 2);
  const core::TrainingJob wrong =
      MakeJob("gpt").Template("metadata: {annotations: {kueue.x-k8s.io/podset-slice-size: many}}");
  EXPECT_FALSE(WorkloadObject(wrong, Pods(4), {}).ok());
}

TEST(WorkloadObject, WithSparesMachinesHaveNoNodesByNumber) {
  core::TrainingJob job = Queued();
  job.spec.spare_machines = 1;
  EXPECT_FALSE(Workload(job, Pods(5))["spec"]["podSets"][0].contains("topologyRequest"));
}

TEST(AdmittedPod, WaitsForTheNodeThatKueueChooses) {
  json workload = Evicted();
  workload["status"]["admission"]["podSetAssignments"][0]["topologyAssignment"] =
      json::parse(R"({"levels": ["kubernetes.io/hostname"], "slices": []})");
  constexpr const char* kUnconstrained = "kueue.x-k8s.io/podset-unconstrained-topology";
  constexpr const char* kRequired = "kueue.x-k8s.io/podset-required-topology";
  auto text = AdmittedPod(Pod(Queued()).dump(), workload.dump(), {kFlavor});
  ASSERT_TRUE(text.ok()) << text.error().message;
  json pod = json::parse(*text);
  EXPECT_EQ(pod["spec"]["schedulingGates"],
            json::parse(R"([{"name": "kueue.x-k8s.io/topology"}])"));
  EXPECT_EQ(pod["metadata"]["annotations"][kUnconstrained], "true");
  core::TrainingJob job =
      MakeJob("gpt").Template(std::string("metadata: {annotations: {") + kRequired + ": rack}}");
  text = AdmittedPod(Pod(job).dump(), workload.dump(), {kFlavor});
  ASSERT_TRUE(text.ok()) << text.error().message;
  pod = json::parse(*text);
  EXPECT_EQ(pod["metadata"]["annotations"][kRequired], "rack");
  EXPECT_FALSE(pod["metadata"]["annotations"].contains(kUnconstrained));
}

}  // namespace
}  // namespace lockstep::control
