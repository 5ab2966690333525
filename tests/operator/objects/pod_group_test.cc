#include "operator/objects/pod_group.h"

#include "tests/operator/objects/pod_fixture.h"

namespace lockstep::control {
namespace {

using core::GangScheduler;

json Group(GangScheduler gang, const core::TrainingJob& job = MakeJob("gpt")) {
  return json::parse(PodGroupObject(job, {"gpt-e5", gang}, 64, PodGroupsOf(gang).front()));
}

json PodIn(GangScheduler gang, const core::TrainingJob& job = MakeJob("gpt")) {
  core::JobStatus status = StatusOf(job);
  status.pod_group = {"gpt-e5", gang};
  return json::parse(*PodObject(job, status, Request(), {}));
}

TEST(PodGroup, BelongsToItsJob) {
  const json metadata = Group(GangScheduler::kCoscheduling)["metadata"];
  EXPECT_EQ(metadata["name"], "gpt-e5");
  EXPECT_EQ(metadata["namespace"], "team");
  EXPECT_EQ(metadata["labels"]["lockstep.dev/job"], "gpt");
  EXPECT_EQ(metadata["ownerReferences"][0]["kind"], "TrainingJob");
  EXPECT_EQ(metadata["ownerReferences"][0]["controller"], true);
}

TEST(PodGroup, OfCoschedulingCountsAllMachines) {
  const json group = Group(GangScheduler::kCoscheduling);
  EXPECT_EQ(group["apiVersion"], "scheduling.x-k8s.io/v1alpha1");
  EXPECT_EQ(group["kind"], "PodGroup");
  EXPECT_EQ(group["spec"], json::parse(R"({"minMember": 64})"));
}

TEST(PodGroup, OfCoschedulingIsJoinedByALabel) {
  const json pod = PodIn(GangScheduler::kCoscheduling);
  EXPECT_EQ(pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"], "gpt-e5");
  EXPECT_EQ(pod["metadata"]["labels"]["lockstep.dev/job"], "gpt");
  EXPECT_FALSE(pod["spec"].contains("schedulerName"));
}

TEST(PodGroup, OfVolcanoHasAQueueAndAPriorityWhereItsJobHas) {
  core::TrainingJob job = MakeJob("gpt");
  EXPECT_EQ(Group(GangScheduler::kVolcano, job)["apiVersion"], "scheduling.volcano.sh/v1beta1");
  EXPECT_EQ(Group(GangScheduler::kVolcano, job)["spec"], json::parse(R"({"minMember": 64})"));
  job.metadata.annotations["scheduling.volcano.sh/queue-name"] = "research";
  job.spec.priority_class_name = "high";
  EXPECT_EQ(Group(GangScheduler::kVolcano, job)["spec"],
            json::parse(R"({"minMember": 64, "queue": "research", "priorityClassName": "high"})"));
  EXPECT_EQ(Group(GangScheduler::kCoscheduling, job)["spec"], json::parse(R"({"minMember": 64})"));
}

TEST(PodGroup, OfVolcanoIsJoinedByAnAnnotation) {
  const json pod = PodIn(GangScheduler::kVolcano);
  EXPECT_EQ(pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"], "gpt-e5");
}

TEST(PodGroup, OfVolcanoHasItsSchedulerUnlessTheJobNamesAnother) {
  core::TrainingJob job = MakeJob("gpt");
  job.spec.scheduling.gang = GangScheduler::kVolcano;
  const auto scheduler_of = [&] {
    return PodIn(GangScheduler::kVolcano, job)["spec"]["schedulerName"];
  };
  EXPECT_EQ(scheduler_of(), "volcano");
  const json spare = json::parse(*SparePodObject(job, "agent:1", 0, {}, {}));
  EXPECT_EQ(spare["spec"]["schedulerName"], "volcano");
  EXPECT_FALSE(spare["metadata"].contains("annotations"));
  job.spec.template_ = MakeJob::Yaml("spec: {schedulerName: a}");
  EXPECT_EQ(scheduler_of(), "a");
  job.spec.scheduler_name = "b";
  EXPECT_EQ(scheduler_of(), "b");
}

TEST(PodGroup, OfKubernetesCountsAllMachinesAndIsJoinedByAField) {
  const json group = Group(GangScheduler::kKubernetes);
  EXPECT_EQ(group["apiVersion"], "scheduling.k8s.io/v1beta1");
  EXPECT_EQ(group["spec"], json::parse(R"({"schedulingPolicy": {"gang": {"minCount": 64}}})"));
  const json pod = PodIn(GangScheduler::kKubernetes);
  EXPECT_EQ(pod["spec"]["schedulingGroup"], json::parse(R"({"podGroupName": "gpt-e5"})"));
}

TEST(PodGroup, WhatIsTriedBeforehandJoinsAsTheGangsPodsDo) {
  const std::string pod = JoiningPod({"gpt-e5", GangScheduler::kKubernetes});
  EXPECT_EQ(json::parse(pod)["spec"]["schedulingGroup"]["podGroupName"], "gpt-e5");
  EXPECT_TRUE(HasJoined(pod));
  EXPECT_FALSE(HasJoined(R"({"spec": {}})"));
  EXPECT_FALSE(HasJoined("{"));
  EXPECT_EQ(JoiningPod({"gpt-e5", GangScheduler::kCoscheduling}), "");
}

TEST(PodGroup, IsHeededWhereItsSchedulerSaysWhatBecameOfIt) {
  EXPECT_TRUE(IsHeeded(R"({"status": {"conditions": [{"type": "A"},
                           {"type": "PodGroupScheduled", "status": "False"}]}})"));
  for (const char* other : {R"({"status": {"conditions": [{"type": "A"}, 1]}})",
                            R"({"status": {}})", R"({"status": {"conditions": 1}})", "{"}) {
    EXPECT_FALSE(IsHeeded(other)) << other;
  }
}

TEST(PodGroup, IsNotJoinedByAPodOfAJobWithoutOneNorByASpare) {
  EXPECT_FALSE(Pod(MakeJob("gpt"))["metadata"]["labels"].contains("scheduling.x-k8s.io/pod-group"));
  core::TrainingJob job = MakeJob("gpt");
  job.spec.scheduling.gang = GangScheduler::kCoscheduling;
  const json spare = json::parse(*SparePodObject(job, "agent:1", 0, {}, {}));
  EXPECT_FALSE(spare["metadata"]["labels"].contains("scheduling.x-k8s.io/pod-group"));
}

}  // namespace
}  // namespace lockstep::control
