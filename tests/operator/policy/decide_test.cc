#include "tests/operator/policy/scene.h"

namespace lockstep::control {
namespace {

TEST(Decide, LeavesAJobAloneThatSomebodyElseManages) {
  Scene scene(MakeJob("gpt").Machines(2).With(
      [](core::Spec& spec) { spec.managed_by = "kueue.x-k8s.io/multikueue"; }));
  EXPECT_TRUE(WritesNothing(scene.Decide()));
}

TEST(Decide, MakesNothingForAJobThatIsBeingDeleted) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.snapshot().deleting = true;
  EXPECT_TRUE(WritesNothing(scene.Decide()));
}

TEST(Decide, SaysTheSameTwice) {
  Scene scene(MakeJob("gpt").Machines(3));
  scene.Run();
  scene.machine(1).end = Killed(9);
  const Decision first = scene.Decide();
  const Decision second = scene.Decide();
  ASSERT_TRUE(first.intent && second.intent);
  EXPECT_EQ(*first.intent, *second.intent);
}

// An operator that starts anew at any moment of a job's creation makes the same objects.
TEST(Decide, AnOperatorThatStartsAnewGoesOnWhereTheLastOneStopped) {
  for (int crash_after = 0; crash_after < 6; ++crash_after) {
    Scene scene(MakeJob("gpt").Machines(2));
    for (int i = 0; i < 12; ++i) {
      if (i == crash_after) scene.ForgetAll();
      const Decision decision = scene.Decide();
      if (decision.intent) {
        scene.status() = *decision.intent;
      } else {
        scene.Make(decision);
        if (decision.status) scene.status() = *decision.status;
      }
    }
    EXPECT_EQ(scene.status().epoch, 1U) << "crash after " << crash_after;
    EXPECT_EQ(scene.machines().size(), 2U);
    EXPECT_EQ(scene.machines().front().name, "gpt-0");
    EXPECT_TRUE(WritesNothing(scene.Decide()));
  }
}

// A whole life: whatever was decided, the epoch that pods are made of stands in status before.
TEST(Decide, NoPodIsMadeOfAnAttemptThatIsNotRecorded) {
  Scene scene(MakeJob("gpt").Machines(3));
  for (int round = 0; round < 60; ++round) {
    const Decision decision = scene.Decide();
    for (const StartMachine& pod : All<StartMachine>(decision)) {
      EXPECT_EQ(scene.status().attempts.Of(static_cast<int>(pod.machine)), pod.attempt);
      EXPECT_LE(pod.attempt, scene.status().epoch);
    }
    if (decision.intent) {
      EXPECT_TRUE(decision.actions.empty());
      scene.status() = *decision.intent;
      continue;
    }
    scene.Make(decision);
    if (decision.status) scene.status() = *decision.status;
    if (round % 7 == 3 && scene.machines().size() >= 3) scene.machines().back().end = Killed(9);
    if (round == 25) scene.spec().suspend = true;
    if (round == 40) scene.spec().suspend = false;
    scene.Pass(seconds(5));
  }
  EXPECT_GT(scene.status().epoch, 3U);
}

}  // namespace
}  // namespace lockstep::control
