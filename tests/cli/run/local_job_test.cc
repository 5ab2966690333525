#include "cli/run/local_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/policy/policies.h"

namespace lockstep::cli {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr Time kStart = hours(1);
const WallTime kWall = WallTime(hours(24 * 365 * 50));

control::MachineEnd Exited(int code) {
  control::MachineEnd end;
  end.exit_code = code;
  return end;
}

core::TrainingJob Job(int machines) {
  core::TrainingJob job;
  job.metadata.uid = "uid";
  job.spec.num_machines = machines;
  return job;
}

// Its steps, one after the other, and the signals that came of them.
class Life : public LocalJob {
 public:
  explicit Life(const core::TrainingJob& job)
      : LocalJob(job, 0,
                 std::vector<MachinePlace>(static_cast<size_t>(job.spec.num_machines),
                                           {"127.0.0.1", ""}),
                 {.wall = kWall, .boot = kStart}) {}
  explicit Life(int machines) : Life(Job(machines)) {}

  void DecideAll() {
    for (int i = 0; i < 30; ++i) {
      const LocalStep step = Decide(now);
      for (const control::EventNote& event : step.events) events.push_back(event.reason);
      for (const LocalStep::Signal& signal : step.signals) {
        signals.push_back((signal.kill ? "kill " : "leave ") + std::to_string(signal.machine));
      }
      if (!step.more) return;
    }
    ADD_FAILURE() << "it decides and decides";
  }

  Time now = kStart;
  std::vector<std::string> signals;
  std::vector<std::string> events;
};

TEST(LocalJob, EveryMachineIsStartedAtOnceAndOneThatEndedIsStartedAgain) {
  Life life(3);
  life.DecideAll();
  EXPECT_THAT(life.machines().processes(), SizeIs(3));
  life.OnEnd(1, Exited(75));
  life.DecideAll();
  EXPECT_FALSE(life.machines().IsFree(1));
  EXPECT_EQ(life.status().attempts.Of(1), 2U);
  EXPECT_EQ(life.status().attempts.Of(0), 1U);
  EXPECT_EQ(life.status().counters.replacements, 1U);
  EXPECT_THAT(life.signals, IsEmpty());
}

TEST(LocalJob, OneWhoseEndNobodySawIsCalledDeadOnceTheGangMustHaveLostItToo) {
  Life life(2);
  life.DecideAll();
  life.OnEnd(1, Exited(255));
  life.OnLostTouch(1, life.now);
  life.DecideAll();
  EXPECT_FALSE(life.PredecessorsDead(1, life.now));
  EXPECT_TRUE(life.PredecessorsDead(0, life.now));
  ASSERT_TRUE(life.desired());
  EXPECT_THAT(life.desired()->fenced, IsEmpty());
  EXPECT_THAT(life.desired()->terminated, IsEmpty());
  EXPECT_LE(life.Decide(life.now).wake, life.now + seconds(15));
  life.now += seconds(15);
  life.DecideAll();
  EXPECT_TRUE(life.PredecessorsDead(1, life.now));
  EXPECT_THAT(life.desired()->fenced, SizeIs(1));
}

TEST(LocalJob, ASpareLeavesBeforeTheMachineThatIsLostIsStartedAgainAndAnotherFollows) {
  core::TrainingJob job = Job(2);
  job.spec.spare_machines = 1;
  Life life(job);
  life.DecideAll();
  EXPECT_FALSE(life.machines().IsFree(kFirstSpare));
  life.OnEnd(1, Exited(75));
  life.DecideAll();
  EXPECT_THAT(life.signals, ElementsAre("kill " + std::to_string(kFirstSpare)));
  EXPECT_TRUE(life.machines().IsFree(1)) << "its place is taken yet";
  life.OnEnd(kFirstSpare, Exited(0));
  life.DecideAll();
  EXPECT_FALSE(life.machines().IsFree(1));
  EXPECT_FALSE(life.machines().IsFree(kFirstSpare));
  EXPECT_EQ(life.status().counters.replacements, 1U);
}

TEST(LocalJob, SparesGoWithTheRunAndAreAwaited) {
  core::TrainingJob job = Job(1);
  job.spec.spare_machines = 1;
  Life life(job);
  life.DecideAll();
  life.Suspend();
  life.DecideAll();
  EXPECT_FALSE(life.over());
  life.now += seconds(3);
  life.DecideAll();
  life.OnEnd(0, Exited(143));
  life.DecideAll();
  EXPECT_FALSE(life.over());
  life.OnEnd(kFirstSpare, Exited(0));
  life.DecideAll();
  EXPECT_TRUE(life.over());
}

TEST(LocalJob, ASpareThatCannotBeStartedIsTriedAgainLater) {
  core::TrainingJob job = Job(1);
  job.spec.spare_machines = 1;
  Life life(job);
  life.DecideAll();
  life.OnEnd(kFirstSpare, Exited(-1));
  life.DecideAll();
  const auto none = [&] {
    return life.machines().IsFree(kFirstSpare) && life.machines().IsFree(kFirstSpare + 1);
  };
  EXPECT_TRUE(none()) << "not at once";
  life.now += seconds(5);
  life.DecideAll();
  EXPECT_FALSE(none());
}

TEST(LocalJob, WhatIsOnlySeenIsToldAsWell) {
  Life life(2);
  life.DecideAll();
  core::GangStatus gang;
  gang.attempt = 1;
  gang.phase = core::CoordinatorPhase::kRunning;
  gang.generation = {1, 1};
  gang.straggler = core::Straggler{1, 0.3, 40};
  EXPECT_TRUE(life.OnStatus(gang, life.now));
  life.DecideAll();
  EXPECT_EQ(std::ranges::count(life.events, "Straggler"), 1);
}

TEST(LocalJob, IsHeldOnceMachine0SaysSoAfterItHeardOfIt) {
  Life life(1);
  life.DecideAll();
  life.SetCode({.digest = "one", .files = 2}, true);
  life.Hold("alice: model.py changed");
  life.DecideAll();
  ASSERT_TRUE(life.desired()->stop);
  EXPECT_EQ(life.desired()->stop->reason, core::StopReason::kRestarted);
  EXPECT_EQ(life.desired()->code->digest, "one");
  core::GangStatus gang;
  gang.attempt = gang.epoch = 1;
  gang.phase = core::CoordinatorPhase::kHeld;
  EXPECT_TRUE(life.OnStatus(gang, life.now));
  EXPECT_FALSE(life.held()) << "an answer of an earlier hold";
  gang.observed_generation = life.desired()->observed_generation;
  EXPECT_TRUE(life.OnStatus(gang, life.now));
  EXPECT_TRUE(life.held());
  life.SetCode({.digest = "two", .files = 2}, true);
  life.Release();
  life.DecideAll();
  EXPECT_FALSE(life.desired()->stop);
  EXPECT_EQ(life.desired()->code->digest, "two");
  EXPECT_EQ(life.status().attempts.Of(0), 1U) << "its agents stayed";
  core::GenerationRecord record;
  record.generation = {1, 2};
  record.code = "two";
  gang.history = {record};
  EXPECT_TRUE(life.OnStatus(gang, life.now));
  EXPECT_EQ(life.status().code->generation, (core::Generation{1, 2}));
}

TEST(LocalJob, EachRequestForARestartIsAnotherOne) {
  Life life(1);
  life.DecideAll();
  life.RequestRestart({"", "new rate", "alice", false});
  life.DecideAll();
  ASSERT_TRUE(life.desired()->restart);
  EXPECT_EQ(life.desired()->restart->words, "alice: new rate");
  const std::string first = life.desired()->restart->id;
  life.RequestRestart({"", "", "alice", false});
  life.DecideAll();
  EXPECT_NE(life.desired()->restart->id, first);
  EXPECT_EQ(life.status().attempts.Of(0), 1U);
}

TEST(LocalJob, OneThatEndsSoonAgainAndAgainWaitsAsOnACluster) {
  Life life(1);
  life.DecideAll();
  for (const Duration wait : {seconds(0), seconds(1), seconds(5), seconds(30)}) {
    life.now += milliseconds(100);
    life.OnEnd(0, Exited(75));
    life.DecideAll();
    if (wait > Duration::zero()) {
      life.now += wait - milliseconds(1);
      life.DecideAll();
      EXPECT_TRUE(life.machines().IsFree(0)) << wait / seconds(1);
      life.now += milliseconds(1);
      life.DecideAll();
    }
    EXPECT_FALSE(life.machines().IsFree(0)) << wait / seconds(1);
  }
}

TEST(LocalJob, AnAgentThatLeavesUnaskedIsChargedForAsOneThatIsLost) {
  Life life(1);
  life.DecideAll();
  life.OnEnd(0, Exited(143));
  life.DecideAll();
  EXPECT_EQ(life.status().attempts.Of(0), 2U);
  EXPECT_EQ(life.status().counters.replacements, 1U);
}

TEST(LocalJob, AStopWithoutACoordinatorTellsTheAgentsThemselvesAfterTwoSeconds) {
  Life life(2);
  life.DecideAll();
  life.Suspend();
  life.DecideAll();
  EXPECT_THAT(life.signals, IsEmpty());
  life.now += seconds(2);
  life.DecideAll();
  EXPECT_THAT(life.signals, ElementsAre("leave 0", "leave 1"));
  EXPECT_NE(life.status().state, core::JobState::kSuspended);
  life.OnEnd(0, Exited(143));
  life.OnEnd(1, Exited(143));
  life.DecideAll();
  EXPECT_EQ(life.status().state, core::JobState::kSuspended);
  EXPECT_EQ(life.status().counters.replacements, 0U);
}

TEST(LocalJob, TheActiveDeadlineFailsTheJob) {
  core::TrainingJob job = Job(1);
  job.spec.active_deadline_seconds = 60;
  Life life(job);
  life.DecideAll();
  life.now += seconds(59);
  life.DecideAll();
  EXPECT_FALSE(control::IsFinished(life.status()));
  life.now += seconds(3);
  life.DecideAll();
  life.now += seconds(2);
  life.DecideAll();
  EXPECT_EQ(life.status().state, core::JobState::kFailed);
  EXPECT_THAT(life.signals, ElementsAre("leave 0"));
}

TEST(LocalJob, AnAgentThatCannotBeConfiguredFailsTheJobAtOnce) {
  Life life(2);
  life.DecideAll();
  control::MachineEnd end = Exited(78);
  end.termination = "the key file is empty";
  life.OnEnd(1, end);
  life.DecideAll();
  EXPECT_EQ(life.status().state, core::JobState::kFailed);
  EXPECT_THAT(life.status().reason, testing::HasSubstr("the key file is empty"));
  EXPECT_THAT(life.signals, ElementsAre("leave 0"));
}

TEST(LocalJob, AnEpochIsToBeRecordedBeforeAnythingIsStartedByIt) {
  Life life(2);
  const LocalStep first = life.Decide(life.now);
  ASSERT_TRUE(first.before.has_value());
  EXPECT_EQ(first.before->epoch, 0U);
  EXPECT_EQ(life.status().epoch, 1U);
  EXPECT_THAT(first.start, IsEmpty());
  EXPECT_THAT(life.Decide(life.now).start, ElementsAre(0, 1));
}

}  // namespace
}  // namespace lockstep::cli
