#include "tests/operator/policy/scene.h"

namespace lockstep::control {
namespace {

using core::CleanPodPolicy;
using testing::IsEmpty;
using testing::SizeIs;

// Machine 0 has left with the verdict; machine 1's agent still runs.
Scene Finished(CleanPodPolicy policy) {
  Scene scene(
      MakeJob("gpt").Machines(2).With([=](core::Spec& spec) { spec.clean_pod_policy = policy; }));
  scene.Run();
  scene.machine(0).end = Verdict(0, {1, 1}, 0, 1);
  scene.machine(0).all_ended = true;
  scene.status() = *scene.Decide().intent;
  return scene;
}

TEST(Finish, AgentsThatKnowTheVerdictHaveThirtySecondsToLeave) {
  Scene scene = Finished(CleanPodPolicy::kRunning);
  const Decision first = scene.Decide();
  EXPECT_THAT(first.actions, IsEmpty());
  EXPECT_EQ(first.wake, scene.now.boot + seconds(30));
  scene.Pass(seconds(30));
  const std::vector<StopMachine> deletions = All<StopMachine>(scene.Decide());
  ASSERT_THAT(deletions, SizeIs(1));
  EXPECT_EQ(deletions[0].name, "gpt-1");
}

TEST(Finish, AnAgentThatNeverHeardOfTheEndHoldsNoNodeWhateverThePolicy) {
  Scene scene = Finished(CleanPodPolicy::kNone);
  EXPECT_THAT(scene.Decide().actions, IsEmpty());
  scene.Pass(seconds(30));
  EXPECT_THAT(All<StopMachine>(scene.Decide()), SizeIs(1));
}

TEST(Finish, ASidecarThatRunsOnIsEndedByCleanPodPolicyRunning) {
  Scene scene = Finished(CleanPodPolicy::kRunning);
  scene.machines().back().end = Verdict(0, {1, 1}, 1, 1);
  scene.Decide();
  scene.Pass(seconds(30));
  EXPECT_THAT(All<StopMachine>(scene.Decide()), SizeIs(1));
}

TEST(Finish, CleanPodPolicyNoneKeepsASidecar) {
  Scene scene = Finished(CleanPodPolicy::kNone);
  scene.machines().back().end = Verdict(0, {1, 1}, 1, 1);
  scene.Decide();
  scene.Pass(hours(1));
  EXPECT_TRUE(WritesNothing(scene.Decide()));
}

TEST(Finish, CleanPodPolicyAllDeletesAllOnceTheyAreOver) {
  Scene scene = Finished(CleanPodPolicy::kAll);
  EXPECT_THAT(All<StopMachine>(scene.Decide()), SizeIs(1));
  scene.machines().back().all_ended = true;
  scene.machines().back().end = Verdict(0, {1, 1}, 1, 1);
  EXPECT_THAT(All<StopMachine>(scene.Decide()), SizeIs(2));
}

TEST(Finish, TheJobGoesAfterItsTimeToLive) {
  Scene scene(MakeJob("gpt").Machines(1).With(
      [](core::Spec& spec) { spec.ttl_seconds_after_finished = 100; }));
  scene.Run();
  scene.machine(0).end = Verdict(0, {1, 1}, 0, 1);
  scene.machine(0).all_ended = true;
  scene.Settle();
  scene.Pass(seconds(99));
  const Decision before = scene.Decide();
  EXPECT_THAT(before.actions, IsEmpty());
  EXPECT_EQ(before.wake, scene.now.boot + seconds(1));
  scene.Pass(seconds(1));
  EXPECT_THAT(All<DeleteJob>(scene.Decide()), SizeIs(1));
}

}  // namespace
}  // namespace lockstep::control
