#include "tests/operator/policy/scene.h"

namespace lockstep::control {
namespace {

using core::CoordinatorPhase;
using core::JobState;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST(Observe, AGangThatRunsIsSeenOnceAndThenNothingIsWritten) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  EXPECT_EQ(scene.status().ready, "2/2");
  EXPECT_EQ(scene.status().reason, "");
  EXPECT_EQ(core::FindCondition(scene.status().conditions, "PodsReady")->status,
            core::Condition::Value::kTrue);
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(WritesNothing(scene.Decide()));
    scene.Pass(minutes(1));
    scene.Running();
  }
}

TEST(Observe, StatesFollowPodsAndGang) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Settle();
  EXPECT_EQ(scene.status().state, JobState::kPending);
  for (int i = 0; i < 2; ++i) scene.Make(scene.Settle());
  scene.Settle();
  EXPECT_EQ(scene.status().state, JobState::kStarting);
  scene.Running();
  scene.Settle();
  EXPECT_EQ(scene.status().state, JobState::kRunning);
  scene.Report(CoordinatorPhase::kBackoff);
  scene.Settle();
  EXPECT_EQ(scene.status().state, JobState::kRestarting);
}

TEST(Observe, TheFirstThingWrittenSaysThatTheJobIsNotReady) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.status().observed_generation = -1;  // the API server's default
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_EQ(decision.intent->observed_generation, 1);
  for (const core::Condition& condition : decision.intent->conditions) {
    EXPECT_EQ(condition.observed_generation, 1) << condition.type;
  }
  const core::Condition* ready = core::FindCondition(decision.intent->conditions, "Ready");
  ASSERT_NE(ready, nullptr);
  EXPECT_EQ(ready->status, core::Condition::Value::kFalse);
}

TEST(Observe, AnOperatorThatHasJustStartedChangesNothing) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.ForgetAll();
  scene.notes().key_made = true;
  scene.snapshot().coordinator.reset();
  EXPECT_TRUE(WritesNothing(scene.Decide()));
}

TEST(Observe, CountersOfTheGangAreMergedAndNeverFall) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.Report(CoordinatorPhase::kRunning).counters = {.generations = 4, .process_failures = 3};
  scene.Settle();
  EXPECT_EQ(scene.status().counters.process_failures, 3U);
  EXPECT_EQ(scene.status().restarts.application, 3);
  scene.Report(CoordinatorPhase::kRunning).counters.process_failures = 1;
  scene.Settle();
  EXPECT_EQ(scene.status().counters.process_failures, 3U);
}

TEST(Observe, AFailureWithALongMessageIsWrittenOnce) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  core::Failure& failure = scene.Report(CoordinatorPhase::kRunning).last_failure;
  failure.cause = core::Cause::kProcessExit;
  failure.machine = 1;
  failure.message = std::string(1000, 'x');
  failure.stderr_tail = std::string(1024, 'y');
  scene.Settle();
  scene.Pass(seconds(1));
  EXPECT_TRUE(WritesNothing(scene.Decide()));
}

TEST(Observe, MoreRestartsThanStatusHoldsAreWrittenOnce) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  core::GangStatus& gang = scene.Report(CoordinatorPhase::kRunning);
  for (uint32_t n = 1; n <= 25; ++n) {
    core::GangStatus::GenerationStatus generation;
    generation.generation = {1, n};
    generation.announced = seconds(n);
    generation.spawned = seconds(n);
    generation.ended = seconds(n + 1);
    generation.died = seconds(n + 1);
    generation.failure.cause = core::Cause::kProcessExit;
    gang.history.push_back(generation);
  }
  scene.Pass(seconds(1));
  scene.Settle();
  ASSERT_THAT(scene.status().history, SizeIs(core::kMaxStatusHistory));
  EXPECT_EQ(scene.status().history.back().generation.n, 25U);
  EXPECT_EQ(scene.status().history.front().generation.n, 16U);
  EXPECT_TRUE(WritesNothing(scene.Decide()));
}

TEST(Observe, AGangThatIsAlwaysInAnotherGenerationIsWrittenOnceASecondAfterABurst) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.Pass(minutes(1));
  int writes = 0;
  int events = 0;
  core::Failure failure;
  failure.cause = core::Cause::kProcessExit;
  for (uint32_t n = 2; n < 1000; ++n) {  // for 10 s, a hundred times a second
    core::GangStatus& gang = scene.Report(CoordinatorPhase::kRunning);
    gang.generation.n = gang.counters.process_failures = n;
    gang.last_failure = failure;
    gang.last_failure.message = "failure " + std::to_string(n);
    const Decision decision = scene.Decide();
    events += static_cast<int>(decision.events.size());
    if (decision.status) {
      ++writes;
      scene.status() = *decision.status;
    } else {
      EXPECT_LE(decision.wake, scene.now.boot + seconds(1));
    }
    scene.Pass(milliseconds(10));
  }
  EXPECT_GE(writes, 15);
  EXPECT_LE(writes, 22);
  EXPECT_EQ(events, writes);
}

TEST(Observe, ARankThatIsStartedAgainAloneIsToldOfAsSuch) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.Pass(minutes(1));
  core::GangStatus& gang = scene.Report(CoordinatorPhase::kRunning);
  gang.counters.process_failures = gang.counters.alone = 1;
  gang.last_failure.cause = core::Cause::kProcessSignal;
  gang.last_failure.message =
      "rank 1 on machine 0 was killed by SIGKILL; it alone is started again";
  const Decision decision = scene.Decide();
  ASSERT_THAT(decision.events, SizeIs(1));
  EXPECT_EQ(decision.events[0].reason, "RankRestarted");
  EXPECT_TRUE(decision.events[0].warning);
  EXPECT_EQ(decision.events[0].note, gang.last_failure.message);
  ASSERT_TRUE(decision.status);
  EXPECT_EQ(decision.status->last_failure->failure.message, gang.last_failure.message);
  EXPECT_EQ(decision.status->restarts.application, 1);
  EXPECT_EQ(decision.status->state, JobState::kRunning);
}

TEST(Observe, WhatEndedAGenerationIsNoRanksRestartThoughThereWasOneBefore) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.Pass(minutes(1));
  core::GangStatus& gang = scene.Report(CoordinatorPhase::kRunning);
  gang.counters.process_failures = 2;
  gang.counters.alone = 1;
  gang.last_failure.cause = core::Cause::kProcessSignal;
  gang.last_failure.message = "rank 0 on machine 0 was killed by SIGKILL";
  gang.history.emplace_back().failure = gang.last_failure;
  const Decision decision = scene.Decide();
  ASSERT_FALSE(decision.events.empty());
  EXPECT_EQ(decision.events[0].reason, "ProcessSignal");
}

TEST(Observe, PodsOnTheirWayAreCountedOnceASecondAndTheLastOneAtOnce) {
  Scene scene(MakeJob("gpt").Machines(4));
  scene.Run();
  for (int machine = 0; machine < 4; ++machine) scene.machine(machine).ready = false;
  scene.Pass(seconds(1));
  scene.Settle();
  int writes = 0;
  for (int machine = 0; machine < 4; ++machine) {
    scene.machine(machine).ready = true;
    scene.Pass(milliseconds(10));
    const Decision decision = scene.Decide();
    if (!decision.status) continue;
    ++writes;
    scene.status() = *decision.status;
  }
  EXPECT_EQ(writes, 1);
  EXPECT_EQ(scene.status().ready, "4/4");
}

TEST(Observe, AReasonThatATroubleHasIsAnEventOnce) {
  Scene scene(MakeJob("gpt").Machines(2));
  for (int i = 0; i < 3; ++i) scene.Make(scene.Settle());
  scene.machine(1).stage = Stage::kPlaced;
  scene.machine(1).ready = false;
  scene.machine(1).trouble = StartTrouble{.reason = "ErrImagePull", .message = "manifest unknown"};
  scene.Pass(seconds(2));
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.status);
  ASSERT_THAT(decision.events, SizeIs(1));
  EXPECT_EQ(decision.events[0].reason, "ImageUnavailable");
  EXPECT_EQ(decision.events[0].note, decision.status->reason);
  EXPECT_TRUE(decision.events[0].warning);
  scene.status() = *decision.status;
  // The kubelet's words change with every try.
  scene.machine(1).trouble->reason = "ImagePullBackOff";
  scene.machine(1).trouble->message = "Back-off pulling image: not found";
  scene.ForgetAll();
  scene.notes().key_made = true;
  scene.Pass(seconds(2));
  EXPECT_THAT(scene.Decide().events, IsEmpty());
}

TEST(Observe, WhatEveryStartGoesThroughIsNoEvent) {
  Scene scene(MakeJob("gpt").Machines(2));
  for (int i = 0; i < 3; ++i) scene.Make(scene.Settle());
  for (const Stage stage : {Stage::kUnplaced, Stage::kPlaced}) {
    for (int machine = 0; machine < 2; ++machine) {
      scene.machine(machine).stage = stage;
      scene.machine(machine).ready = false;
    }
    scene.Pass(seconds(2));
    const Decision decision = scene.Decide();
    ASSERT_TRUE(decision.status);
    EXPECT_THAT(decision.events, IsEmpty()) << decision.status->reason;
    scene.status() = *decision.status;
  }
}

TEST(Observe, ANameConflictIsACondition) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Settle();
  scene.notes().refusal = Refusal{Refusal::Kind::kNameConflict, "service gpt", ""};
  scene.notes().make_again = scene.now.boot + seconds(10);
  scene.Settle();
  const core::Condition* conflict = core::FindCondition(scene.status().conditions, "NameConflict");
  ASSERT_NE(conflict, nullptr);
  EXPECT_EQ(conflict->status, core::Condition::Value::kTrue);
  EXPECT_THAT(conflict->message, HasSubstr("service gpt exists and does not belong to this job"));
}

}  // namespace
}  // namespace lockstep::control
