#include "tests/operator/policy/scene.h"

namespace lockstep::control {
namespace {

using core::Cause;
using testing::HasSubstr;

// The gang is made, and no agent has run.
void Made(Scene& scene) {
  while (scene.machines().empty()) scene.Make(scene.Settle());
  for (MachineObservation& seen : scene.machines()) seen.stage = Stage::kPlaced;
}

MachineEnd NoBucket() { return InitFailed("fetch", 3, "no such bucket\n"); }

// The next attempt of every machine that has none; each on the same node again.
void MakeNext(Scene& scene) {
  for (int i = 0; i < 60; ++i) {
    Decision decision = scene.Settle();
    scene.Make(decision);
    if (!All<StartMachine>(decision).empty()) break;
    scene.Pass(seconds(1));
  }
  for (MachineObservation& seen : scene.machines()) {
    if (!seen.over()) seen.stage = Stage::kPlaced;
  }
}

TEST(Alike, AnInitContainerThatFailsIsQuotedAndTheMachinesAtFirst) {
  Scene scene(MakeJob("gpt").Machines(2));
  Made(scene);
  scene.machine(1).end = NoBucket();
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent && decision.intent->last_failure);
  const core::Failure& failure = decision.intent->last_failure->failure;
  EXPECT_EQ(failure.cause, Cause::kMachineLost);
  EXPECT_EQ(failure.exit_code, 3);
  EXPECT_EQ(failure.message,
            "machine 1: its init container fetch exited with code 3 on node node-1: "
            "no such bucket");
  EXPECT_EQ(decision.intent->counters.replacements, 1U);
  EXPECT_EQ(decision.intent->counters.out_of_memory, 0U);
}

TEST(Alike, TheSameEndOnTwoNodesIsTheJobsAndIsChargedOnce) {
  Scene scene(MakeJob("gpt").Machines(2));
  Made(scene);
  scene.machine(0).end = NoBucket();
  scene.machine(1).end = NoBucket();
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent && decision.intent->last_failure);
  EXPECT_EQ(decision.intent->counters.replacements, 0U);
  EXPECT_EQ(decision.intent->counters.out_of_memory, 1U) << "a round is one failure";
  EXPECT_EQ(decision.intent->last_failure->failure.cause, Cause::kProcessExit);
  EXPECT_THAT(decision.intent->last_failure->failure.message,
              HasSubstr("no such bucket; the same on 2 nodes"));
  EXPECT_EQ(scene.Decide().intent->counters.out_of_memory, 1U)
      << "decided again, after a conflict, it is charged again";
}

TEST(Alike, MachinesThatEndALittleLaterAreOfTheSameRound) {
  Scene scene(MakeJob("gpt").Machines(3));
  Made(scene);
  scene.machine(0).end = NoBucket();
  scene.machine(1).end = NoBucket();
  scene.status() = *scene.Decide().intent;
  scene.machine(2).end = NoBucket();
  scene.status() = *scene.Decide().intent;
  EXPECT_EQ(scene.status().counters.out_of_memory, 1U);
  MakeNext(scene);
  for (int i = 0; i < 3; ++i) scene.machine(i).end = NoBucket();
  scene.status() = *scene.Decide().intent;
  EXPECT_EQ(scene.status().counters.out_of_memory, 2U);
}

TEST(Alike, MaxRestartsEndsTheJobWithTheWordsOfItsContainer) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.spec().failure_policy.max_restarts = 1;
  Made(scene);
  for (int round = 0; round < 2; ++round) {
    ASSERT_FALSE(scene.status().verdict);
    for (int i = 0; i < 2; ++i) scene.machine(i).end = NoBucket();
    scene.status() = *scene.Decide().intent;
    if (round == 0) MakeNext(scene);
  }
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent && decision.intent->verdict);
  EXPECT_EQ(decision.intent->state, core::JobState::kFailed);
  EXPECT_EQ(decision.intent->verdict->exit_code, 70);
  EXPECT_EQ(decision.intent->verdict->cause, Cause::kProcessExit);
  EXPECT_THAT(decision.intent->reason, HasSubstr("fetch exited with code 3"));
  EXPECT_THAT(decision.intent->reason, HasSubstr("maxRestarts is 1"));
  EXPECT_EQ(decision.intent->counters.replacements, 0U);
}

TEST(Alike, WhereThereIsOneNodeTheThirdTimeIsTheJobs) {
  Scene scene(MakeJob("gpt").Machines(1));
  Made(scene);
  for (const uint32_t charged : {0U, 0U, 1U, 2U}) {
    scene.machine(0).end = NoBucket();
    scene.status() = *scene.Decide().intent;
    EXPECT_EQ(scene.status().counters.out_of_memory, charged);
    MakeNext(scene);
  }
  EXPECT_EQ(scene.status().counters.replacements, 2U);
}

TEST(Alike, EndsOfDifferentSortsAreNotOneFailure) {
  Scene scene(MakeJob("gpt").Machines(2));
  Made(scene);
  scene.machine(0).end = NoBucket();
  scene.machine(1).end = InitFailed("fetch", 1, "disk full");
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_EQ(decision.intent->counters.replacements, 2U);
  EXPECT_EQ(decision.intent->counters.out_of_memory, 0U);
}

TEST(Alike, MachinesThatAreKilledTogetherAreNotTheJobsFailure) {
  Scene scene(MakeJob("gpt").Machines(4));
  scene.Run();
  for (int i = 0; i < 4; ++i) scene.machine(i).end = Killed(9);  // a rack lost its power
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_EQ(decision.intent->counters.replacements, 4U);
  EXPECT_EQ(decision.intent->counters.out_of_memory, 0U);
}

TEST(Alike, AnEndThatIsLongPastIsNoEvidence) {
  Scene scene(MakeJob("gpt").Machines(2));
  Made(scene);
  scene.machine(0).end = NoBucket();
  scene.status() = *scene.Decide().intent;
  MakeNext(scene);
  scene.Pass(hours(2));
  scene.machine(1).end = NoBucket();
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_EQ(decision.intent->counters.out_of_memory, 0U);
  EXPECT_EQ(decision.intent->counters.replacements, 2U);
}

TEST(Alike, AnEvictionForTheJobsOwnLimitIsChargedAtOnce) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  MachineEnd end = Exited(143);
  end.reason = "Evicted";
  end.message = "Usage of EmptyDir volume \"data\" exceeds the limit \"1Gi\". ";
  end.payer = Payer::kJob;
  scene.machine(1).end = end;
  scene.machine(1).all_ended = true;
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent && decision.intent->last_failure);
  EXPECT_EQ(decision.intent->counters.replacements, 0U);
  EXPECT_EQ(decision.intent->counters.out_of_memory, 1U);
  EXPECT_EQ(decision.intent->last_failure->failure.cause, Cause::kConfiguration);
  EXPECT_THAT(decision.intent->last_failure->failure.message,
              HasSubstr("Evicted: Usage of EmptyDir volume \"data\" exceeds"));
}

TEST(Alike, APodThatUsesMoreThanItAskedForIsFreeOnOneNodeAndNotOnTwo) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  MachineEnd end = Evicted("Container worker was using 9Gi, has larger consumption of memory. ");
  end.payer = Payer::kSuspect;
  scene.machine(0).end = end;
  scene.status() = *scene.Decide().intent;
  EXPECT_EQ(scene.status().restarts.total, 0);
  scene.machine(1).end = end;
  scene.status() = *scene.Decide().intent;
  EXPECT_EQ(scene.status().counters.replacements, 0U);
  EXPECT_EQ(scene.status().counters.out_of_memory, 1U);
  EXPECT_THAT(scene.status().last_failure->failure.message, HasSubstr("larger consumption"));
}

TEST(Alike, AnInitContainerThatADeletionEndsCostsNothing) {
  Scene scene(MakeJob("gpt").Machines(2));
  Made(scene);
  scene.machine(1).leave_by = scene.now.wall;
  scene.machine(1).end = InitFailed("fetch", 143, "");
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_EQ(decision.intent->restarts.total, 0);
  EXPECT_FALSE(decision.intent->last_failure);
}

TEST(Alike, AGangThatRunsIsNotEndedByMachinesThatFailed) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.spec().failure_policy.max_restarts = 0;
  Made(scene);
  for (int i = 0; i < 2; ++i) scene.machine(i).end = NoBucket();
  scene.status() = *scene.Decide().intent;
  ASSERT_EQ(scene.status().counters.application_used(), 1);
  for (int i = 0; i < 2; ++i) scene.AddMachine(i, scene.status().epoch);
  scene.Running();
  EXPECT_FALSE(scene.Settle().intent);
  EXPECT_FALSE(scene.status().verdict);
}

}  // namespace
}  // namespace lockstep::control
