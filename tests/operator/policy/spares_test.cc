#include "tests/operator/policy/scene.h"

namespace lockstep::control {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

core::TrainingJob WithSpares(int count) {
  return MakeJob("gpt").Machines(3).With([&](core::Spec& spec) { spec.spare_machines = count; });
}

// A gang that runs, with its spares ready.
Scene Ready(int spares) {
  Scene scene(WithSpares(spares));
  scene.Run();
  scene.Make(scene.Settle());
  scene.Pass(minutes(2));
  scene.Running();
  scene.Settle();
  return scene;
}

std::vector<std::string> Stopped(const Decision& decision) {
  std::vector<std::string> names;
  for (const StopMachine& stop : All<StopMachine>(decision)) names.push_back(stop.name);
  return names;
}

TEST(Spares, AreMadeOnceEveryMachineHasANode) {
  Scene scene(WithSpares(2));
  for (int i = 0; i < 2; ++i) {
    const Decision decision = scene.Settle();
    EXPECT_THAT(All<StartSpare>(decision), IsEmpty());
    scene.Make(decision);
  }
  scene.machine(1).stage = Stage::kUnplaced;
  EXPECT_THAT(All<StartSpare>(scene.Settle()), IsEmpty());
  scene.machine(1).stage = Stage::kPlaced;
  const Decision decision = scene.Settle();
  ASSERT_THAT(All<StartSpare>(decision), SizeIs(2));
  EXPECT_EQ(All<StartSpare>(decision)[0].number, 0U);
  EXPECT_EQ(All<StartSpare>(decision)[1].number, 1U);
}

TEST(Spares, AreNotMadeWhereNoneAreWanted) {
  Scene scene = Ready(0);
  EXPECT_THAT(scene.spares(), IsEmpty());
  EXPECT_EQ(scene.Decide().wake, kNever);
}

TEST(Spares, AreCountedApartFromMachines) {
  Scene scene = Ready(2);
  EXPECT_EQ(scene.status().machines.ready, 3);
  EXPECT_EQ(scene.status().machines.spares, 2);
  EXPECT_EQ(scene.status().ready, "3/3");
  EXPECT_TRUE(WritesNothing(scene.Decide()));
}

TEST(Spares, ALostMachineGetsTheNodeOfOneOnceThatHasLeft) {
  Scene scene = Ready(1);
  scene.machine(1).end = Killed(9);
  const Decision lost = scene.Settle();
  EXPECT_THAT(Stopped(lost), ElementsAre("gpt-spare0"));
  EXPECT_EQ(All<StopMachine>(lost)[0].grace_seconds, 1);
  EXPECT_THAT(All<StartMachine>(lost), IsEmpty()) << "the node's GPUs are not free yet";

  EXPECT_THAT(Stopped(scene.Settle()), ElementsAre("gpt-spare0")) << "that may have failed";

  scene.spares()[0].leave_by = scene.now.wall + seconds(1);
  const Decision meanwhile = scene.Settle();
  EXPECT_THAT(meanwhile.actions, IsEmpty());
  EXPECT_EQ(scene.status().reason, "machine 1 waits for gpt-spare0 to leave node spare-0");

  scene.spares().clear();
  const Decision gone = scene.Settle();
  ASSERT_THAT(All<StartMachine>(gone), SizeIs(1));
  EXPECT_EQ(All<StartMachine>(gone)[0].spare_node, "spare-0");
  EXPECT_THAT(All<StartSpare>(gone), IsEmpty()) << "the machine has no node yet";

  scene.Make(gone);
  scene.Running();
  EXPECT_THAT(All<StartSpare>(scene.Settle()), SizeIs(1)) << "elsewhere";
}

TEST(Spares, OneThatDoesNotLeaveIsNotAwaitedForLong) {
  Scene scene = Ready(1);
  scene.machine(1).end = Killed(9);
  scene.Settle();
  scene.spares()[0].leave_by = scene.now.wall + seconds(1);
  EXPECT_EQ(scene.Settle().wake, scene.now.boot + seconds(5));
  scene.Pass(seconds(5));
  const Decision late = scene.Settle();
  ASSERT_THAT(All<StartMachine>(late), SizeIs(1));
  EXPECT_EQ(All<StartMachine>(late)[0].spare_node, "");
}

TEST(Spares, TheReadyAreTakenFirstAndOneForEachMachine) {
  Scene scene = Ready(2);
  scene.spares()[0].ready = false;
  scene.machine(1).end = Killed(9);
  EXPECT_THAT(Stopped(scene.Settle()), ElementsAre("gpt-spare1"));

  Scene both = Ready(2);
  both.machine(1).end = Killed(9);
  both.machine(2).end = Killed(9);
  const Decision decision = both.Settle();
  EXPECT_THAT(Stopped(decision), ElementsAre("gpt-spare0", "gpt-spare1"));
}

TEST(Spares, AMachineThatNoneIsLeftForIsMadeAtOnce) {
  Scene scene = Ready(1);
  scene.machine(1).end = Killed(9);
  scene.machine(2).end = Killed(9);
  const Decision decision = scene.Settle();
  EXPECT_THAT(Stopped(decision), ElementsAre("gpt-spare0"));
  ASSERT_THAT(All<StartMachine>(decision), SizeIs(1));
  EXPECT_EQ(All<StartMachine>(decision)[0].machine, 2U);
}

TEST(Spares, ANodeWhereTheMachineFailedIsNotItsPlace) {
  Scene scene = Ready(1);
  scene.spares()[0].node = "node-1";
  scene.machine(1).end = Killed(9);
  const Decision decision = scene.Settle();
  EXPECT_THAT(Stopped(decision), IsEmpty());
  EXPECT_THAT(All<StartMachine>(decision), SizeIs(1));
}

TEST(Spares, AMachineThatFindsNoNodeGetsOneAfterAll) {
  Scene scene = Ready(1);
  scene.spares()[0].node = "node-1";
  scene.machine(1).end = Killed(9);
  scene.Make(scene.Settle());
  scene.machine(1).stage = Stage::kUnplaced;
  scene.machine(1).node = "";
  scene.spares()[0].node = "spare-0";
  EXPECT_THAT(Stopped(scene.Settle()), IsEmpty());
  scene.Pass(seconds(5));
  EXPECT_THAT(Stopped(scene.Settle()), ElementsAre("gpt-spare0"));
}

TEST(Spares, OneWithoutANodeDoesNotCompeteWithAMachine) {
  Scene scene = Ready(1);
  scene.spares()[0].stage = Stage::kUnplaced;
  scene.spares()[0].node = "";
  scene.machine(1).end = Killed(9);
  const Decision decision = scene.Settle();
  EXPECT_THAT(Stopped(decision), ElementsAre("gpt-spare0"));
  EXPECT_THAT(All<StartMachine>(decision), SizeIs(1));
}

TEST(Spares, LeaveWithAGangThatIsSuspendedAndTheJobIsSuspendedOnceTheyAreGone) {
  Scene scene = Ready(1);
  scene.spec().suspend = true;
  EXPECT_THAT(Stopped(scene.Settle()), ElementsAre("gpt-spare0"));
  scene.RemoveMachines();
  scene.status().attempts = {};
  scene.spares()[0].leave_by = scene.now.wall + seconds(1);
  scene.Settle();
  EXPECT_EQ(scene.status().state, core::JobState::kStopping);
  scene.spares().clear();
  scene.Settle();
  EXPECT_EQ(scene.status().state, core::JobState::kSuspended);
}

TEST(Spares, LeaveAtTheEndOfTheJobWhateverItsCleanPodPolicy) {
  Scene scene = Ready(1);
  scene.spec().clean_pod_policy = core::CleanPodPolicy::kNone;
  scene.machine(0).end = Verdict(0, {1, 1}, 0, 1);
  const Decision decision = scene.Settle();
  EXPECT_EQ(scene.status().state, core::JobState::kSucceeded);
  EXPECT_EQ(scene.status().machines.spares, 0);
  EXPECT_THAT(Stopped(decision), testing::Contains("gpt-spare0"));
}

TEST(Spares, ThoseBeyondWhatIsWantedLeaveTheLeastUsefulFirst) {
  Scene scene = Ready(3);
  scene.spares()[1].ready = false;
  scene.spec().spare_machines = 1;
  EXPECT_THAT(Stopped(scene.Settle()), ElementsAre("gpt-spare1", "gpt-spare2"));
}

TEST(Spares, OneThatIsPreemptedOrEvictedIsReplacedUnderAnotherName) {
  Scene scene = Ready(1);
  scene.spares()[0].leave_by = scene.now.wall + seconds(30);
  const Decision preempted = scene.Settle();
  ASSERT_THAT(All<StartSpare>(preempted), SizeIs(1));
  EXPECT_EQ(All<StartSpare>(preempted)[0].number, 1U) << "the first is still there";

  Scene evicted = Ready(1);
  evicted.spares()[0].end = Evicted("low on memory");
  const Decision decision = evicted.Settle();
  EXPECT_THAT(Stopped(decision), ElementsAre("gpt-spare0")) << "what is left of it";
  EXPECT_THAT(All<StartSpare>(decision), SizeIs(1));
}

TEST(Spares, OnesThatEndSoonAreReplacedEverLater) {
  Scene scene = Ready(1);
  for (const int pause : {1, 5, 30, 30}) {
    scene.spares().clear();
    scene.AddSpare(0);
    scene.Settle();
    scene.spares().clear();
    scene.Settle();
    scene.Pass(seconds(pause) - milliseconds(1));
    EXPECT_THAT(All<StartSpare>(scene.Settle()), IsEmpty());
    scene.Pass(milliseconds(1));
    EXPECT_THAT(All<StartSpare>(scene.Settle()), SizeIs(1));
  }
}

TEST(Spares, OneThatIsRefusedIsTriedLaterAndHoldsNothingUp) {
  Scene scene(WithSpares(1));
  scene.Run();
  scene.spares().clear();
  for (const int pause : {1, 2, 4}) {
    const Decision decision = scene.Settle();
    EXPECT_THAT(All<StartSpare>(decision), IsEmpty());
    EXPECT_GT(decision.wake, scene.now.boot);
    scene.Pass(seconds(pause));
    EXPECT_THAT(All<StartSpare>(scene.Settle()), SizeIs(1));
  }
  scene.notes().spare_refusal =
      Refusal{Refusal::Kind::kForbidden, "pod gpt-spare0", "exceeded quota: gpus"};
  scene.Running();
  scene.Pass(seconds(1));
  scene.Settle();
  EXPECT_EQ(scene.status().state, core::JobState::kRunning);
  EXPECT_EQ(scene.status().reason, "pod gpt-spare0 may not be created: exceeded quota: gpus");
  scene.machine(1).end = Killed(9);
  EXPECT_THAT(All<StartMachine>(scene.Settle()), SizeIs(1));
}

TEST(Spares, ANodeThatRefusesOneIsAvoidedByTheNext) {
  Scene scene = Ready(1);
  scene.spares()[0].end = Misaligned("cannot be aligned");
  const Decision decision = scene.Settle();
  ASSERT_THAT(All<StartSpare>(decision), SizeIs(1));
  EXPECT_THAT(All<StartSpare>(decision)[0].avoid_nodes, ElementsAre("spare-0"));
}

TEST(Spares, OneOnANodeThatCannotBeReachedIsNoPlaceAndIsReplaced) {
  Scene scene = Ready(1);
  scene.spares()[0].node_state = NodeState::kUnreachable;
  scene.machine(1).end = Killed(9);
  const Decision decision = scene.Settle();
  EXPECT_THAT(All<StartMachine>(decision), SizeIs(1));
  ASSERT_TRUE(decision.status);
  EXPECT_EQ(decision.status->machines.spares, 0);
}

TEST(Spares, ANameThatSomebodyElseHasIsLeftToThem) {
  Scene scene = Ready(0);
  scene.spec().spare_machines = 2;
  std::vector<uint32_t> asked;
  for (int i = 0; i < 2; ++i) {
    for (const StartSpare& start : All<StartSpare>(scene.Settle())) asked.push_back(start.number);
    scene.Pass(seconds(1));
  }
  EXPECT_THAT(asked, ElementsAre(0, 1, 1, 2)) << "nothing came of the first";
  scene.notes().spare_refusal = Refusal{Refusal::Kind::kNameConflict, "pod gpt-spare0", ""};
  scene.Pass(minutes(1));
  scene.Running();
  const Decision decision = scene.Settle();
  ASSERT_TRUE(decision.status);
  EXPECT_EQ(decision.status->reason,
            "pod gpt-spare0 does not belong to this job; the operator tries another name");
}

TEST(Spares, OneThatLeavesWhileTheOperatorIsStartedAnewIsTheMachinesPlaceStill) {
  Scene scene = Ready(2);
  scene.machine(1).end = Killed(9);
  EXPECT_THAT(Stopped(scene.Settle()), ElementsAre("gpt-spare0"));
  scene.spares()[0].leave_by = scene.now.wall + seconds(1);
  scene.ForgetAll();
  scene.notes().key_made = true;
  EXPECT_THAT(scene.Settle().actions, IsEmpty()) << "gpt-spare1 stays";
  scene.spares().erase(scene.spares().begin());
  const Decision gone = scene.Settle();
  ASSERT_THAT(All<StartMachine>(gone), SizeIs(1));
  EXPECT_EQ(All<StartMachine>(gone)[0].spare_node, "spare-0");
}

TEST(Spares, AreFoundAgainByAnOperatorThatHasJustStarted) {
  Scene scene = Ready(2);
  scene.ForgetAll();
  scene.notes().key_made = true;
  EXPECT_THAT(scene.Settle().actions, IsEmpty());
  scene.machine(1).end = Killed(9);
  EXPECT_THAT(Stopped(scene.Settle()), ElementsAre("gpt-spare0"));
}

}  // namespace
}  // namespace lockstep::control
