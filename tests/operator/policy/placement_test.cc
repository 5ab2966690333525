#include "tests/operator/policy/scene.h"

namespace lockstep::control {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

// Machine 0 runs, machine 1 finds no node.
void HalfPlaced(Scene& scene) {
  while (scene.machines().empty()) scene.Make(scene.Settle());
  scene.machine(1).stage = Stage::kUnplaced;
  scene.machine(1).node.clear();
  scene.machine(1).ready = false;
  scene.machine(1).unplaced_because = "0/4 nodes are available: 4 Insufficient nvidia.com/gpu";
}

TEST(Placement, AGangThatIsNotPlacedWithinStartTimeoutLetsGo) {
  Scene scene(MakeJob("gpt").Machines(2));
  HalfPlaced(scene);
  scene.snapshot().oldest_waiting = false;
  scene.Settle();
  EXPECT_THAT(scene.status().reason, HasSubstr("Insufficient nvidia.com/gpu"));
  scene.Pass(minutes(10) - seconds(1));
  EXPECT_EQ(scene.Decide().wake, scene.now.boot + seconds(1));
  scene.Pass(seconds(1));
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_TRUE(decision.intent->attempts.empty());
  EXPECT_THAT(decision.intent->reason, HasSubstr("1 of 2 machines found no node"));
  scene.status() = *decision.intent;
  EXPECT_THAT(All<StopMachine>(scene.Decide()), SizeIs(2));
}

TEST(Placement, TheOldestKeepsWhatItHas) {
  Scene scene(MakeJob("gpt").Machines(2));
  HalfPlaced(scene);
  scene.Pass(hours(1));
  scene.Settle();
  EXPECT_EQ(scene.status().attempts.size(), 2);
  EXPECT_THAT(scene.status().reason, HasSubstr("the job keeps its nodes"));
}

TEST(Placement, ItTriesAgainLaterAndLaterEachTime) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.snapshot().oldest_waiting = false;
  Duration before{};
  for (int i = 0; i < 3; ++i) {
    HalfPlaced(scene);
    scene.Pass(minutes(10));
    scene.Settle();
    scene.RemoveMachines();
    const Decision waits = scene.Settle();
    EXPECT_TRUE(scene.status().attempts.empty());
    EXPECT_THAT(scene.status().reason, HasSubstr("released its nodes"));
    const Duration pause = waits.wake - scene.now.boot;
    EXPECT_GT(pause, before);
    EXPECT_LE(pause, minutes(8));
    before = pause;
    scene.Pass(pause);
    scene.Decide();
  }
}

TEST(Placement, ARoundThatIsDecidedAgainCountsOnce) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.snapshot().oldest_waiting = false;
  HalfPlaced(scene);
  scene.Pass(minutes(10));
  for (int i = 0; i < 5; ++i)
    EXPECT_TRUE(scene.Decide().intent);  // each in conflict with another's
  scene.Settle();
  scene.RemoveMachines();
  const Decision waits = scene.Settle();
  EXPECT_LE(waits.wake - scene.now.boot, seconds(30));
}

TEST(Placement, WaitingForAnImageIsNotWaitingForANode) {
  Scene scene(MakeJob("gpt").Machines(2));
  HalfPlaced(scene);
  scene.machine(1).stage = Stage::kPlaced;
  scene.machine(1).node = "node-1";
  scene.snapshot().oldest_waiting = false;
  scene.Pass(hours(1));
  EXPECT_FALSE(scene.Decide().intent);
}

}  // namespace
}  // namespace lockstep::control
