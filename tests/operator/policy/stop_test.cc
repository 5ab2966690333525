// What every requested stop has in common; what it is for stands in the tests of suspend, deadline,
// scale and placement.
#include "tests/operator/policy/scene.h"

namespace lockstep::control {
namespace {

using core::CoordinatorPhase;
using core::JobState;
using testing::IsEmpty;
using testing::SizeIs;

TEST(Stop, TheGangIsAskedFirstAndItsPodsStay) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.spec().suspend = true;
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.desired && decision.desired->stop);
  EXPECT_EQ(decision.desired->stop->reason, core::StopReason::kSuspended);
  EXPECT_EQ(decision.desired->stop->grace, scene.spec().grace_period);
  EXPECT_FALSE(decision.intent);
  EXPECT_THAT(decision.actions, IsEmpty());
  ASSERT_TRUE(decision.status);
  EXPECT_EQ(decision.status->state, JobState::kStopping);
}

TEST(Stop, OnceTheGangIsHeldItsAttemptsAreTakenBackAndThenItsPodsGo) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.spec().suspend = true;
  scene.Settle();
  scene.snapshot().desired_state_accepted = true;
  scene.Report(CoordinatorPhase::kHeld);
  const Decision dissolve = scene.Decide();
  ASSERT_TRUE(dissolve.intent);
  EXPECT_TRUE(dissolve.intent->attempts.empty());
  EXPECT_EQ(dissolve.intent->replicas, 0);
  EXPECT_THAT(dissolve.actions, IsEmpty());
  scene.status() = *dissolve.intent;
  const Decision clear = scene.Decide();
  const std::vector<StopMachine> deletions = All<StopMachine>(clear);
  ASSERT_THAT(deletions, SizeIs(2)) << "all at once";
  EXPECT_FALSE(deletions[0].grace_seconds) << "the pod's own, which is longer than gracePeriod";
}

TEST(Stop, AMachineThatWasReplacedHasASecondThoughItsGangIsStoppedAtOnce) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.Report(CoordinatorPhase::kStopping).machines[1].silent_for = seconds(20);
  scene.status() = *scene.Decide().intent;
  scene.spec().suspend = true;
  const std::vector<StopMachine> replaced = All<StopMachine>(scene.Settle());
  ASSERT_THAT(replaced, SizeIs(1));
  EXPECT_EQ(replaced[0].name, "gpt-1");
  EXPECT_EQ(replaced[0].grace_seconds, 1);
  scene.machines().back().leave_by = scene.now.wall + seconds(1);
  scene.Settle();
  scene.Pass(seconds(2));
  scene.Settle();
  EXPECT_TRUE(scene.status().attempts.empty());
}

TEST(Stop, APodInWhichNoAgentHasBegunNeedsNoTimeToLeave) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.machine(1).stage = Stage::kPlaced;
  scene.spec().suspend = true;
  scene.Pass(seconds(2));
  scene.Settle();
  scene.Pass(seconds(2));
  const std::vector<StopMachine> deletions = All<StopMachine>(scene.Settle());
  ASSERT_THAT(deletions, SizeIs(2));
  EXPECT_FALSE(deletions[0].grace_seconds);
  EXPECT_EQ(deletions[1].grace_seconds, 1);
}

TEST(Stop, AGangThatDoesNotTakeTheDesiredStateIsStoppedByItsPods) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.spec().suspend = true;
  scene.Settle();
  scene.Pass(seconds(2));
  ASSERT_TRUE(scene.Decide().intent);
}

TEST(Stop, RanksThatSaveHaveTheirGracePeriod) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.spec().suspend = true;
  scene.Settle();
  scene.snapshot().desired_state_accepted = true;
  scene.Report(CoordinatorPhase::kStopping);
  scene.Pass(scene.spec().grace_period + seconds(14));
  scene.Report(CoordinatorPhase::kStopping);
  EXPECT_FALSE(scene.Decide().intent);
  scene.Pass(seconds(1));
  EXPECT_TRUE(scene.Decide().intent);
}

TEST(Stop, AGangThatWritesItsMemoryToTheFolderHasTwoMinutesMore) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.spec().checkpoint.memory.size = Quantity::FromUnits(1);
  scene.Run();
  scene.spec().suspend = true;
  scene.Settle();
  scene.snapshot().desired_state_accepted = true;
  scene.Report(CoordinatorPhase::kStopping);
  scene.Pass(scene.spec().grace_period + seconds(14) + minutes(2));
  scene.Report(CoordinatorPhase::kStopping);
  EXPECT_FALSE(scene.Decide().intent);
  scene.Pass(seconds(1));
  EXPECT_TRUE(scene.Decide().intent);
}

TEST(Stop, AGangThatUploadsItsMemoryHasHalfAnHourMore) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.spec().checkpoint.memory.size = Quantity::FromUnits(1);
  scene.spec().checkpoint.url = "s3://bucket/gpt";
  scene.Run();
  scene.spec().suspend = true;
  scene.Settle();
  scene.snapshot().desired_state_accepted = true;
  scene.Report(CoordinatorPhase::kStopping);
  scene.Pass(scene.spec().grace_period + seconds(14) + minutes(30));
  scene.Report(CoordinatorPhase::kStopping);
  EXPECT_FALSE(scene.Decide().intent);
  scene.Pass(seconds(1));
  EXPECT_TRUE(scene.Decide().intent);
}

TEST(Stop, ACheckpointInMemoryThatDidNotReachTheFolderIsTold) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.spec().suspend = true;
  scene.Settle();
  scene.snapshot().desired_state_accepted = true;
  scene.Report(CoordinatorPhase::kHeld).unwritten =
      "checkpoint step-7 in memory was not written to /ckpt: disk full";
  const Decision dissolve = scene.Decide();
  ASSERT_TRUE(dissolve.intent);
  ASSERT_THAT(dissolve.events, SizeIs(1));
  EXPECT_EQ(dissolve.events[0].reason, "CheckpointNotWritten");
  EXPECT_EQ(dissolve.events[0].note,
            "checkpoint step-7 in memory was not written to /ckpt: disk full");
}

TEST(Stop, WithoutMachine0NothingIsWaitedFor) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.RemoveMachine(0);
  scene.spec().suspend = true;
  EXPECT_TRUE(scene.Decide().intent);
}

TEST(Stop, MachinesThatEndWhileStoppingAreNotReplaced) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.spec().suspend = true;
  scene.Settle();
  scene.machine(1).end = Exited(143);
  EXPECT_FALSE(scene.Decide().intent);
}

TEST(Stop, AUserWhoChangesHisMindMidwayKeepsTheGang) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.spec().suspend = true;
  scene.Settle();
  scene.spec().suspend = false;
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.desired);
  EXPECT_FALSE(decision.desired->stop);
  EXPECT_FALSE(decision.intent);
  // A second stop has all its patience.
  scene.Pass(minutes(1));
  scene.Decide();
  scene.spec().suspend = true;
  EXPECT_FALSE(scene.Decide().intent);
}

TEST(Stop, AUserWhoChangesHisMindLaterGetsANewGangOnceTheOldOneIsGone) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.spec().suspend = true;
  scene.Settle();
  scene.Pass(seconds(2));
  scene.status() = *scene.Decide().intent;
  scene.spec().suspend = false;
  for (MachineObservation& seen : scene.machines()) seen.leave_by = scene.now.wall + minutes(2);
  EXPECT_FALSE(scene.Decide().intent) << "the old gang may yet run";
  scene.RemoveMachines();
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_EQ(decision.intent->epoch, 2U);
  EXPECT_EQ(decision.intent->attempts.Of(0), 2U);
}

TEST(Stop, APodOfAnEpochThatIsYetToBeHeardOfIsLeftAlone) {
  Scene scene(MakeJob("gpt").Machines(1).Suspended());
  scene.status().epoch = 1;
  scene.AddMachine(0,
                   2);  // another leader has resumed the job; its status comes later than its pod
  EXPECT_THAT(scene.Decide().actions, IsEmpty());
}

TEST(Stop, APodOnANodeThatNobodyHearsOfIsWaitedForByItsLeaseOnly) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.spec().num_machines = 1;
  scene.Settle();
  scene.Pass(seconds(2));
  scene.status() = *scene.Decide().intent;
  scene.machines().front().end = Exited(143);
  scene.machines().back().leave_by = scene.now.wall + seconds(30);
  scene.machines().front().leave_by = scene.now.wall + seconds(30);
  scene.Pass(seconds(44));
  const Decision early = scene.Decide();
  EXPECT_FALSE(early.intent);
  EXPECT_EQ(early.wake, scene.now.boot + seconds(1));
  scene.Pass(seconds(1));
  EXPECT_TRUE(scene.Decide().intent);
}

}  // namespace
}  // namespace lockstep::control
