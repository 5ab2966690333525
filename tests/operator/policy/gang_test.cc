#include "tests/operator/policy/scene.h"

namespace lockstep::control {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

TEST(Gang, AStatusThatWentBackIsRaisedAboveWhatTheCoordinatorHasTaken) {
  for (const bool spec_alone : {false, true}) {
    Scene scene(MakeJob("gpt").Machines(2));
    scene.Run();
    core::GangStatus& gang = scene.Report(core::CoordinatorPhase::kHeld);
    gang.epoch = spec_alone ? 1 : 9;
    gang.observed_generation = spec_alone ? 4 : 1;
    const Decision decision = scene.Decide();
    ASSERT_TRUE(decision.intent);
    EXPECT_EQ(decision.intent->epoch, spec_alone ? 2U : 10U);
    EXPECT_EQ(decision.intent->attempts, scene.status().attempts) << "nothing is replaced";
    scene.status() = *decision.intent;
    gang.epoch = 5000;
    EXPECT_FALSE(scene.Decide().intent) << "once a minute";
    scene.Pass(minutes(1));
    EXPECT_TRUE(scene.Decide().intent);
  }
}

// As an operator makes it that was paused while status went back.
TEST(Gang, APodOfALostStatusRaisesTheEpochAndIsDeleted) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  const std::string uid = scene.AddMachine(0, 5).uid;
  EXPECT_FALSE(scene.Decide().intent) << "the status that ordered it may be on its way";
  scene.Pass(minutes(1));
  scene.Running();
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_EQ(decision.intent->epoch, 5U);
  EXPECT_EQ(decision.intent->attempts, scene.status().attempts) << "nothing is replaced";
  const Decision then = scene.Settle();
  EXPECT_TRUE(std::ranges::any_of(then.actions, [&](const Action& action) {
    const auto* stop = std::get_if<StopMachine>(&action);
    return stop != nullptr && stop->uid == uid;
  }));
}

TEST(Gang, Machine0IsToldWhatItCannotSee) {
  Scene scene(MakeJob("gpt").Machines(3));
  scene.Run();
  scene.status().counters.replacements = 2;
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.desired);
  EXPECT_EQ(decision.desired->epoch, 1U);
  EXPECT_EQ(decision.desired->observed_generation, 1);
  EXPECT_EQ(decision.desired->machine_failures.replacements, 2U);
  EXPECT_FALSE(decision.desired->stop);
  EXPECT_THAT(decision.desired->terminated, IsEmpty());
}

TEST(Gang, NothingIsSaidWhileMachine0DoesNotRun) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.machine(0).stage = Stage::kPlaced;
  EXPECT_FALSE(scene.Decide().desired);
}

TEST(Gang, ATerminatedContainerIsToldAtOnce) {
  Scene scene(MakeJob("gpt").Machines(3));
  scene.Run();
  scene.machine(1).end = OutOfMemory();
  const Decision decision = scene.Settle();
  ASSERT_TRUE(decision.desired);
  ASSERT_THAT(decision.desired->terminated, SizeIs(1));
  EXPECT_EQ(decision.desired->terminated[0].machine, 1U);
  EXPECT_EQ(decision.desired->terminated[0].attempt, 1U);
  EXPECT_EQ(decision.desired->terminated[0].cause, core::Cause::kOutOfMemory);
  EXPECT_EQ(decision.desired->machine_failures.out_of_memory, 1U);
}

TEST(Gang, AHigherLIsWrittenDownBeforeAnyLeaseIsGrantedUnderIt) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.spec().failure_policy.machine_lost_after = seconds(60);
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_EQ(decision.intent->machine_lost_after, seconds(60));
  EXPECT_FALSE(decision.desired);
  scene.status() = *decision.intent;
  EXPECT_EQ(scene.Decide().desired->policy->machine_lost_after, seconds(60));
  scene.spec().failure_policy.machine_lost_after = seconds(5);
  EXPECT_EQ(scene.Decide().desired->policy->machine_lost_after, seconds(5));
  EXPECT_EQ(scene.status().machine_lost_after, seconds(60)) << "of all that were ever granted";
}

// Whether machine 0's successor, and the gang's, may count on the death of what was before.

bool SaidFenced(const Decision& decision, uint32_t machine) {
  if (!decision.desired) return false;
  for (const core::DesiredState::Fenced& fenced : decision.desired->fenced) {
    if (fenced.machine == machine) return true;
  }
  return false;
}

TEST(Fencing, APredecessorThatWasSeenToEndIsDead) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.machine(1).end = Killed(9);
  const Decision decision = scene.Settle();
  ASSERT_THAT(All<StartMachine>(decision), SizeIs(1));
  EXPECT_TRUE(All<StartMachine>(decision)[0].predecessor_dead);
  EXPECT_TRUE(SaidFenced(decision, 1));
}

TEST(Fencing, APredecessorThatMayYetRunIsNot) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.Report(core::CoordinatorPhase::kStopping).machines[1].silent_for = seconds(20);
  const Decision decision = scene.Settle();
  ASSERT_THAT(All<StartMachine>(decision), SizeIs(1));
  EXPECT_FALSE(All<StartMachine>(decision)[0].predecessor_dead);
  scene.AddMachine(1, 2);
  scene.Report(core::CoordinatorPhase::kFencing);
  scene.Settle();
  scene.Pass(hours(1));
  scene.Report(core::CoordinatorPhase::kFencing);
  EXPECT_FALSE(SaidFenced(scene.Settle(), 1)) << "its pod is still there";
  for (MachineObservation& seen : scene.machines()) {
    if (seen.machine == 1) seen.end = Killed(9);
  }
  EXPECT_TRUE(SaidFenced(scene.Settle(), 1));
}

TEST(Fencing, WhatVanishedUnseenIsDeadOnceTheWholeGangHasWaitedForL) {
  Scene scene(MakeJob("gpt").Machines(1));
  scene.Run();
  scene.RemoveMachines();
  const Decision decision = scene.Settle();
  ASSERT_THAT(All<StartMachine>(decision), SizeIs(1));
  EXPECT_FALSE(All<StartMachine>(decision)[0].predecessor_dead);
  scene.Make(decision);
  scene.Report(core::CoordinatorPhase::kFencing);
  EXPECT_FALSE(SaidFenced(scene.Settle(), 0));
  EXPECT_EQ(scene.Decide().wake, scene.now.boot + seconds(15));
  scene.Pass(seconds(15));
  EXPECT_TRUE(SaidFenced(scene.Settle(), 0)) << "or a job of one machine would wait for ever";
}

TEST(Fencing, WhatWasTakenForDeadIsToldToEachMachine0) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.ForgetAll();
  scene.RemoveMachines();
  scene.Make(scene.Settle());
  scene.Make(scene.Settle());
  scene.Report(core::CoordinatorPhase::kFencing);
  scene.Settle();
  scene.Pass(seconds(15));
  EXPECT_TRUE(SaidFenced(scene.Settle(), 1));
  // Before a rank has run; its pod stays for as long as nobody says what became of its node.
  scene.machine(0).node_state = NodeState::kGone;
  const Decision decision = scene.Settle();
  ASSERT_THAT(All<StartMachine>(decision), SizeIs(1));
  scene.Make(decision);
  scene.Report(core::CoordinatorPhase::kFencing);
  EXPECT_TRUE(SaidFenced(scene.Settle(), 1)) << "else it would wait for ever";
  EXPECT_FALSE(SaidFenced(scene.Settle(), 0)) << "its last attempt may run yet";
}

TEST(Fencing, AnOperatorThatHasJustStartedTellsItASuccessorThatHasNoWitness) {
  Scene scene(MakeJob("gpt").Machines(1));
  scene.Run();
  scene.ForgetAll();
  scene.machine(0).end = Killed(9);
  scene.Make(scene.Settle());
  scene.Make(scene.Settle());
  scene.Report(core::CoordinatorPhase::kFencing);
  scene.Settle();
  scene.Pass(seconds(15));
  EXPECT_TRUE(SaidFenced(scene.Settle(), 0));
}

TEST(Fencing, WhatIsOverIsForgottenAndWhatVanishedUnseenIsNot) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.spec().failure_policy.max_machine_replacements = 100;
  scene.Run();
  const auto replace = [&] {
    scene.Pass(hours(1));
    scene.Make(scene.Settle());
    scene.Make(scene.Settle());
    scene.Running();
    return scene.Settle();
  };
  for (int i = 0; i < 5; ++i) {
    scene.machine(1).end = Killed(9);
    EXPECT_TRUE(SaidFenced(replace(), 1));
    EXPECT_THAT(scene.snapshot().memory.attempts.attempts, SizeIs(2));
  }
  scene.RemoveMachine(1);
  EXPECT_FALSE(SaidFenced(replace(), 1));
  scene.machine(1).end = Killed(9);
  EXPECT_FALSE(SaidFenced(replace(), 1)) << "it may run yet, whatever came after it";
  EXPECT_THAT(scene.snapshot().memory.attempts.attempts, SizeIs(3));
}

TEST(Fencing, TheFirstAttemptHasNoPredecessor) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  EXPECT_THAT(scene.Decide().desired->fenced, IsEmpty());
}

}  // namespace
}  // namespace lockstep::control
