#include "tests/operator/policy/scene.h"

namespace lockstep::control {
namespace {

using testing::Contains;
using testing::IsEmpty;
using testing::SizeIs;

TEST(Pods, AnEpochIsRecordedBeforeAnythingIsMade) {
  Scene scene(MakeJob("gpt").Machines(3));
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_EQ(decision.intent->epoch, 1U);
  EXPECT_EQ(decision.intent->attempts.size(), 3);
  EXPECT_EQ(decision.intent->replicas, 3);
  EXPECT_EQ(decision.intent->agent.image, "agent:1");
  EXPECT_THAT(decision.actions, IsEmpty());
  EXPECT_FALSE(decision.status);
}

TEST(Pods, SecretAndServicesComeFirstAndPodsOnceTheCoordinatorHasAnAddress) {
  Scene scene(MakeJob("gpt").Machines(2));
  const Decision first = scene.Settle();
  EXPECT_THAT(All<MakeKey>(first), SizeIs(1));
  EXPECT_THAT(All<MakeNames>(first), SizeIs(1));
  ASSERT_THAT(All<MakeCoordinatorAddress>(first), SizeIs(1));
  EXPECT_THAT(All<StartMachine>(first), IsEmpty());

  scene.AddAddresses();
  EXPECT_THAT(All<StartMachine>(scene.Settle()), IsEmpty()) << "the pods mount the Secret";
  scene.notes().key_made = true;
  const Decision second = scene.Settle();
  ASSERT_THAT(All<StartMachine>(second), SizeIs(2));
  EXPECT_TRUE(All<StartMachine>(second)[0].predecessor_dead);
  EXPECT_THAT(All<MakeCoordinatorAddress>(second), IsEmpty());
}

// Its pods mount a Secret of another name; who replaces one of them mounts the new one's same key.
TEST(Pods, AJobThatBeganUnderAnOlderOperatorGetsTheSecretUnderItsNameOfTodayAndGoesOn) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.ForgetAll();
  const Decision first = scene.Settle();
  EXPECT_THAT(All<MakeKey>(first), SizeIs(1));
  EXPECT_THAT(All<StartMachine>(first), IsEmpty());
  EXPECT_THAT(All<StopMachine>(first), IsEmpty());
  EXPECT_EQ(scene.status().state, core::JobState::kRunning);
  scene.machine(1).end = Killed(9);
  EXPECT_THAT(All<StartMachine>(scene.Settle()), IsEmpty());
  scene.notes().key_made = true;
  const std::vector<StartMachine> replaced = All<StartMachine>(scene.Settle());
  ASSERT_THAT(replaced, SizeIs(1));
  EXPECT_EQ(replaced[0].machine, 1U);
}

TEST(Pods, OnlyThoseThatAreMissingAreMade) {
  Scene scene(MakeJob("gpt").Machines(3));
  scene.Make(scene.Settle());
  scene.AddMachine(1, 1);
  const std::vector<StartMachine> pods = All<StartMachine>(scene.Settle());
  ASSERT_THAT(pods, SizeIs(2));
  EXPECT_EQ(pods[0].machine, 0U);
  EXPECT_EQ(pods[1].machine, 2U);
}

TEST(Pods, OnceAllExistStatusSaysSoAndAMissingOneIsALostOne) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  EXPECT_EQ(scene.status().created_epoch, 1U);
  scene.RemoveMachine(1);
  scene.ForgetAll();  // another operator sees it as well
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_EQ(decision.intent->attempts.Of(1), 2U);
  EXPECT_EQ(decision.intent->attempts.Of(0), 1U);
}

TEST(Pods, APodThatVanishedBeforeStatusKnewOfAllIsNotMadeUnderItsNumberAgain) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Make(scene.Settle());
  scene.AddMachine(1, 1);
  scene.Decide();
  scene.RemoveMachine(1);
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_EQ(decision.intent->attempts.Of(1), 2U);
}

TEST(Pods, AReplacementAvoidsTheNodeWhereTheLastOneFailed) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.machine(1).end = Killed(9);
  const std::vector<StartMachine> pods = All<StartMachine>(scene.Settle());
  ASSERT_THAT(pods, SizeIs(1));
  EXPECT_THAT(pods[0].avoid_nodes, Contains("node-1"));
}

TEST(Pods, TheLastFailedPodOfAMachineIsKeptForItsLogs) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.Pass(minutes(2));
  for (int i = 0; i < 3; ++i) {
    scene.machine(1).end = Killed(9);
    scene.Make(scene.Settle());
    scene.Make(scene.Settle());
    scene.Pass(minutes(2));
  }
  EXPECT_THAT(scene.machines(), SizeIs(3)) << "machine 0, machine 1 and its last failed pod";
}

TEST(Pods, AReplacedPodThatStillRunsIsDeletedWithOneSecondOfGrace) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.Report(core::CoordinatorPhase::kStopping).machines[1].silent_for = seconds(20);
  const Decision decision = scene.Settle();
  const std::vector<StopMachine> deletions = All<StopMachine>(decision);
  ASSERT_THAT(deletions, SizeIs(1));
  EXPECT_EQ(deletions[0].name, "gpt-1");
  EXPECT_EQ(deletions[0].uid, "uid-gpt-1");
  EXPECT_EQ(deletions[0].grace_seconds, 1);
  EXPECT_THAT(All<StartMachine>(decision), SizeIs(1)) << "the replacement does not wait for it";
}

TEST(Pods, APodBeyondTheGangIsDeleted) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.AddMachine(2, 1);
  EXPECT_THAT(All<StopMachine>(scene.Settle()), SizeIs(1));
}

}  // namespace
}  // namespace lockstep::control
