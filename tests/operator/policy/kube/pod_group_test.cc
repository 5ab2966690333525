#include "tests/operator/policy/scene.h"

namespace lockstep::control {
namespace {

using core::GangScheduler;
using core::JobState;
using core::PodGroupStatus;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class PodGroupTest : public testing::Test {
 protected:
  PodGroupTest() { scene_.spec().scheduling.gang = GangScheduler::kCoscheduling; }

  void Suspend() {
    scene_.spec().suspend = true;
    scene_.Settle();
    scene_.Pass(seconds(2));
    scene_.Settle();
  }
  // What it makes and drops until there is nothing to do.
  void Finish() {
    for (int i = 0; i < 5; ++i) scene_.Make(scene_.Settle());
  }

  Scene scene_{MakeJob("gpt").Machines(2)};
};

TEST_F(PodGroupTest, AJobWithoutOneNamesNoneAndMakesNone) {
  scene_.spec().scheduling.gang = GangScheduler::kNone;
  scene_.Run();
  EXPECT_FALSE(scene_.status().pod_group);
  Suspend();
  EXPECT_THAT(All<MakePodGroup>(scene_.Decide()), IsEmpty());
  EXPECT_THAT(All<DropPodGroup>(scene_.Decide()), IsEmpty());
}

TEST_F(PodGroupTest, ItIsNamedWithTheGangAndMadeBeforeAnyPod) {
  const Decision first = scene_.Decide();
  ASSERT_TRUE(first.intent);
  EXPECT_EQ(first.intent->pod_group, (PodGroupStatus{"gpt-e1", GangScheduler::kCoscheduling}));
  EXPECT_THAT(first.actions, IsEmpty());
  scene_.notes().key_made = true;
  const Decision next = scene_.Settle();
  const auto groups = All<MakePodGroup>(next);
  ASSERT_THAT(groups, SizeIs(1));
  EXPECT_EQ(groups[0].group.name, "gpt-e1");
  EXPECT_EQ(groups[0].machines, 2);
  EXPECT_THAT(All<StartMachine>(next), IsEmpty());
  scene_.Make(next);
  EXPECT_THAT(All<StartMachine>(scene_.Settle()), SizeIs(2));
}

TEST_F(PodGroupTest, OfAGangThatMayLeaveMachinesOutItAsksForTheFewest) {
  scene_.spec().elastic = core::Elastic{.min_machines = 1, .sizes = {}};
  scene_.notes().key_made = true;
  scene_.Settle();
  const auto groups = All<MakePodGroup>(scene_.Decide());
  ASSERT_THAT(groups, SizeIs(1));
  EXPECT_EQ(groups[0].machines, 1);
}

TEST_F(PodGroupTest, NoPodIsMadeWhileItIsRefusedAndTheReasonSaysWhy) {
  scene_.notes().key_made = true;
  scene_.AddAddresses();
  scene_.Settle();
  scene_.notes().refusal =
      Refusal{Refusal::Kind::kNotServed, "podgroup gpt-e1", "the cluster lacks scheduler-plugins"};
  scene_.notes().make_again = scene_.now.boot + seconds(10);
  scene_.Pass(seconds(2));
  EXPECT_THAT(scene_.Settle().actions, IsEmpty());
  EXPECT_EQ(scene_.status().reason,
            "podgroup gpt-e1 cannot be created: the cluster lacks scheduler-plugins");
  scene_.Pass(seconds(10));
  const Decision again = scene_.Settle();
  EXPECT_THAT(All<MakePodGroup>(again), SizeIs(1));
  EXPECT_THAT(All<StartMachine>(again), IsEmpty());
}

TEST_F(PodGroupTest, ALostMachineIsReplacedWithinTheSameGroupOnceItIsSeenToBeThere) {
  scene_.Run();
  scene_.machine(1).end = Killed(9);
  const Decision first = scene_.Settle();
  const auto groups = All<MakePodGroup>(first);
  ASSERT_THAT(groups, SizeIs(1));
  EXPECT_EQ(groups[0].group.name, "gpt-e1");
  EXPECT_THAT(All<StartMachine>(first), IsEmpty());
  scene_.Make(first);
  EXPECT_THAT(All<StartMachine>(scene_.Settle()), SizeIs(1));
  EXPECT_EQ(scene_.status().pod_group->name, "gpt-e1");
}

TEST_F(PodGroupTest, AnOperatorThatIsNewAsksForItAndForNothingWhileAllPodsAreThere) {
  scene_.Run();
  scene_.ForgetAll();
  scene_.notes().key_made = true;
  EXPECT_THAT(All<MakePodGroup>(scene_.Settle()), IsEmpty());
  scene_.machine(1).end = Killed(9);
  EXPECT_THAT(All<MakePodGroup>(scene_.Settle()), SizeIs(1));
}

TEST_F(PodGroupTest, OfASuspendedJobItGoesAfterTheLastPodAndOutOfStatus) {
  scene_.Run();
  Suspend();
  EXPECT_THAT(All<DropPodGroup>(scene_.Decide()), IsEmpty());
  scene_.RemoveMachines();
  const auto dropped = All<DropPodGroup>(scene_.Decide());
  ASSERT_THAT(dropped, SizeIs(1));
  EXPECT_EQ(dropped[0].group.name, "gpt-e1");
  Finish();
  EXPECT_FALSE(scene_.status().pod_group);
  EXPECT_EQ(scene_.status().state, JobState::kSuspended);
  EXPECT_TRUE(WritesNothing(scene_.Decide()));
}

TEST_F(PodGroupTest, AnotherGangHasAnotherOnceTheOneBeforeItIsGone) {
  scene_.Run();
  Suspend();
  scene_.RemoveMachines();
  scene_.Decide();
  scene_.spec().suspend = false;
  scene_.spec().num_machines = 3;
  const Decision waits = scene_.Decide();
  EXPECT_FALSE(waits.intent);
  ASSERT_THAT(All<DropPodGroup>(waits), SizeIs(1));
  scene_.Make(waits);
  const Decision next = scene_.Decide();
  ASSERT_TRUE(next.intent);
  EXPECT_EQ(next.intent->pod_group->name, "gpt-e2");
  const auto groups = All<MakePodGroup>(scene_.Settle());
  ASSERT_THAT(groups, SizeIs(1));
  EXPECT_EQ(groups[0].machines, 3);
}

TEST_F(PodGroupTest, WhatIsDroppedIsTheOneThatWasMadeThoughTheJobNowAsksForNone) {
  scene_.Run();
  Suspend();
  scene_.RemoveMachines();
  scene_.spec().scheduling.gang = GangScheduler::kNone;
  const auto dropped = All<DropPodGroup>(scene_.Decide());
  ASSERT_THAT(dropped, SizeIs(1));
  EXPECT_EQ(dropped[0].group.gang, GangScheduler::kCoscheduling);
  Finish();
  scene_.spec().suspend = false;
  const Decision next = scene_.Decide();
  ASSERT_TRUE(next.intent);
  EXPECT_FALSE(next.intent->pod_group);
}

TEST_F(PodGroupTest, OfAJobThatIsOverItGoesWhenNothingRuns) {
  scene_.Run();
  scene_.status().state = JobState::kSucceeded;
  EXPECT_THAT(All<DropPodGroup>(scene_.Decide()), IsEmpty());
  for (MachineObservation& seen : scene_.machines()) seen.end = Exited(0);
  EXPECT_THAT(All<DropPodGroup>(scene_.Decide()), SizeIs(1));
  Finish();
  EXPECT_FALSE(scene_.status().pod_group);
  EXPECT_EQ(scene_.status().state, JobState::kSucceeded);
}

// Only Kubernetes' own says what has become of it.
TEST_F(PodGroupTest, ASchedulerThatTakesNoNoticeIsToldOnceAllMachinesRun) {
  scene_.Run();
  scene_.Pass(seconds(20));
  EXPECT_THAT(All<AskOfPodGroup>(scene_.Settle()), IsEmpty());

  scene_.status().pod_group->gang = GangScheduler::kKubernetes;
  for (MachineObservation& seen : scene_.machines()) seen.started = scene_.now.wall;
  EXPECT_THAT(All<AskOfPodGroup>(scene_.Settle()), IsEmpty());
  scene_.Pass(seconds(10));
  EXPECT_THAT(All<AskOfPodGroup>(scene_.Settle()), SizeIs(1));
  scene_.notes().heed = {"gpt-e1", false, scene_.now.boot};
  EXPECT_THAT(All<AskOfPodGroup>(scene_.Settle()), IsEmpty());
  EXPECT_THAT(scene_.status().reason, HasSubstr("GangScheduling of kube-scheduler is off"));
  scene_.Pass(seconds(60));
  EXPECT_THAT(All<AskOfPodGroup>(scene_.Settle()), SizeIs(1));
  scene_.notes().heed = {"gpt-e1", true, scene_.now.boot};
  scene_.Pass(seconds(300));
  EXPECT_THAT(All<AskOfPodGroup>(scene_.Settle()), IsEmpty());
  EXPECT_THAT(scene_.status().reason, IsEmpty());
}

TEST_F(PodGroupTest, PodsOfWhichNoSchedulerSaysAnythingAreToldToWaitForEachOther) {
  for (int i = 0; i < 3; ++i) scene_.Make(scene_.Settle());
  for (MachineObservation& seen : scene_.machines()) {
    seen.stage = Stage::kUnplaced;
    seen.ready = false;
    seen.node.clear();
  }
  scene_.Pass(seconds(2));
  scene_.Settle();
  EXPECT_THAT(scene_.status().reason, HasSubstr("wait for each other in PodGroup gpt-e1"));
  for (MachineObservation& seen : scene_.machines()) seen.unplaced_because = "0/3 nodes are free";
  scene_.Pass(seconds(2));
  scene_.Settle();
  EXPECT_THAT(scene_.status().reason, HasSubstr("0/3 nodes are free"));
}

}  // namespace
}  // namespace lockstep::control
