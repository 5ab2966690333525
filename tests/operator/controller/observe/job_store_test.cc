#include "operator/controller/observe/job_store.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace lockstep::control {
namespace {

kube::JobView ViewOf(const std::string& name, Duration created) {
  kube::JobView view;
  view.meta.name = name;
  view.meta.name_space = "ns";
  view.meta.uid = "uid-" + name;
  view.meta.resource_version = "5";
  view.meta.created = WallTime(created);
  view.json = R"({"apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob"})";
  return view;
}

core::JobStatus Waiting() {
  core::JobStatus status;
  status.state = core::JobState::kPending;
  status.attempts.Set(0, 1);
  return status;
}

class JobStoreTest : public testing::Test {
 protected:
  JobRecord* Learned(const kube::JobView& view) {
    JobRecord& record = jobs_.FindOrAdd({view.meta.name_space, view.meta.name});
    EXPECT_TRUE(Update(view, &record).ok());
    jobs_.OnLearned(&record);
    return &record;
  }

  prometheus::Registry registry_;
  JobStore jobs_{&registry_};
};

TEST_F(JobStoreTest, KnowsWhatItWroteAndWhatCameBefore) {
  const kube::JobView view = ViewOf("gpt", seconds(1));
  EXPECT_FALSE(jobs_.Knows(view.meta));
  JobRecord* record = Learned(view);
  jobs_.OnWritten(record, Waiting(), "7", WallTime(seconds(2)));
  kube::ObjectMeta meta = view.meta;
  for (const char* version : {"5", "7"}) {
    meta.resource_version = version;
    EXPECT_TRUE(jobs_.Knows(meta)) << version;
  }
  meta.resource_version = "8";
  EXPECT_FALSE(jobs_.Knows(meta));
  meta.resource_version = "7";
  meta.uid = "of a new job of that name";
  EXPECT_FALSE(jobs_.Knows(meta));
  EXPECT_EQ(record->status.state, core::JobState::kPending);
}

TEST_F(JobStoreTest, LearnsLabelsAndAnnotationsThatChangeWithoutTheGeneration) {
  kube::JobView view = ViewOf("gpt", seconds(1));
  Learned(view);
  view.meta.resource_version = "6";
  view.json = R"({"apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob",
                  "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}})";
  const core::Metadata& metadata = Learned(view)->job.metadata;
  EXPECT_EQ(metadata.labels, (std::map<std::string, std::string>{{"a", "b"}}));
  EXPECT_EQ(metadata.annotations, (std::map<std::string, std::string>{{"c", "d"}}));
  EXPECT_EQ(metadata.name, "gpt");
}

TEST_F(JobStoreTest, TheOldestThatWaitsForNodesIsOldestUntilItRunsOrIsGone) {
  JobRecord* older = Learned(ViewOf("older", seconds(1)));
  JobRecord* newer = Learned(ViewOf("newer", seconds(2)));
  EXPECT_TRUE(jobs_.IsOldestWaiting(*newer)) << "nobody waits";
  jobs_.OnWritten(newer, Waiting(), "6", WallTime(seconds(3)));
  jobs_.OnWritten(older, Waiting(), "6", WallTime(seconds(3)));
  EXPECT_TRUE(jobs_.IsOldestWaiting(*older));
  EXPECT_FALSE(jobs_.IsOldestWaiting(*newer));

  core::JobStatus running = Waiting();
  running.state = core::JobState::kRunning;
  jobs_.OnWritten(older, running, "7", WallTime(seconds(4)));
  EXPECT_TRUE(jobs_.IsOldestWaiting(*newer));

  jobs_.OnWritten(older, Waiting(), "8", WallTime(seconds(5)));
  EXPECT_FALSE(jobs_.IsOldestWaiting(*newer));
  jobs_.Forget({"ns", "older"});
  EXPECT_EQ(jobs_.Find({"ns", "older"}), nullptr);
  EXPECT_TRUE(jobs_.IsOldestWaiting(*newer));
}

TEST_F(JobStoreTest, WhatAJobOwnedIsDeletedWithItPerhapsSoThatTheJobIsRead) {
  const JobRecord* record = Learned(ViewOf("gpt", seconds(1)));
  jobs_.OnOwnedDeleted({"ns", "gpt"}, "of an earlier job of that name");
  jobs_.OnOwnedDeleted({"ns", "bert"}, "uid-bert");
  EXPECT_FALSE(record->uncertain);
  jobs_.OnOwnedDeleted({"ns", "gpt"}, "uid-gpt");
  EXPECT_TRUE(record->uncertain);
}

TEST_F(JobStoreTest, RemembersHowAPodOfTheJobWasWhenItWentAway) {
  JobRecord* record = Learned(ViewOf("gpt", seconds(1)));
  kube::PodView pod;
  pod.meta.name_space = "ns";
  pod.meta.owner_uid = "uid-gpt";
  pod.job = "gpt";
  pod.machine = 1;
  pod.attempt = 3;
  jobs_.OnPodDeleted(pod);
  EXPECT_TRUE(record->notes.vanished.contains({1, 3}));

  pod.machine = 2;
  pod.meta.owner_uid = "of an earlier job of that name";
  jobs_.OnPodDeleted(pod);
  pod.job = "unheard-of";
  jobs_.OnPodDeleted(pod);
  EXPECT_EQ(record->notes.vanished.size(), 1U);
}

TEST_F(JobStoreTest, AJobWithoutMachinesHoldsItsSpecAsTextAloneAndReadsItAgain) {
  kube::JobView view = ViewOf("gpt", seconds(1));
  view.json = R"({"apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob",
                  "metadata": {"name": "gpt", "labels": {"a": "b"}},
                  "spec": {"numMachines": 3, "image": "i"}})";
  JobRecord* record = Learned(view);
  jobs_.OnWritten(record, Waiting(), "9", WallTime(seconds(2)));
  Rest(record);
  EXPECT_EQ(record->job.spec.image, "");
  EXPECT_EQ(record->name(), (kube::ObjectName{"ns", "gpt"}));
  Learned(view);  // as it was before the write
  EXPECT_EQ(record->job.spec.num_machines, 3);
  EXPECT_EQ(record->job.metadata.labels.size(), 1U);
  EXPECT_EQ(record->status.state, core::JobState::kPending) << "what was written is newer";
  EXPECT_EQ(record->resource_version, "9");
}

TEST_F(JobStoreTest, AJobThatIsNotKeptOrCannotBeReadHasThatAsItsProblem) {
  kube::JobView refused = ViewOf("gpt", seconds(1));
  refused.json = R"({"status": {"epoch": 0}})";
  refused.refusal = "it has 900 KiB";
  EXPECT_EQ(Learned(refused)->problems.at(0).message, "it has 900 KiB");

  kube::JobView deep = ViewOf("deep", seconds(1));
  deep.json = R"({"spec": {"trainer": {"model": )" + std::string(2000, '[') +
              std::string(2000, ']') + R"(}}, "status": {"reason": "r"}})";
  const JobRecord* record = Learned(deep);
  ASSERT_EQ(record->problems.size(), 1U);
  EXPECT_NE(record->problems[0].message.find("the TrainingJob cannot be read: "),
            std::string::npos);
  EXPECT_EQ(record->status.reason, "r");

  deep.begun = true;
  JobRecord fresh;
  EXPECT_FALSE(Update(deep, &fresh).ok()) << "nothing is decided by a spec that is not known";
}

}  // namespace
}  // namespace lockstep::control
