#include "tests/operator/policy/scene.h"

namespace lockstep::control {
namespace {

using core::Condition;
using core::JobState;
using testing::IsEmpty;

void Suspend(Scene& scene) {
  scene.spec().suspend = true;
  scene.Settle();
  scene.Pass(seconds(2));
  scene.Settle();
  scene.RemoveMachines();
  scene.Settle();
}

TEST(Suspend, AJobThatIsBornSuspendedMakesNothing) {
  Scene scene(MakeJob("gpt").Machines(2).Suspended());
  const Decision decision = scene.Decide();
  EXPECT_THAT(decision.actions, IsEmpty());
  EXPECT_FALSE(decision.intent);
  ASSERT_TRUE(decision.status);
  EXPECT_EQ(decision.status->state, JobState::kSuspended);
  EXPECT_EQ(decision.status->epoch, 0U);
  scene.Settle();
  EXPECT_TRUE(WritesNothing(scene.Decide()));
  scene.spec().suspend = false;
  ASSERT_TRUE(scene.Decide().intent);
}

TEST(Suspend, ASuspendedJobSaysSoOnceItsPodsAreGone) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  Suspend(scene);
  EXPECT_EQ(scene.status().state, JobState::kSuspended);
  const Condition* suspended = core::FindCondition(scene.status().conditions, "Suspended");
  ASSERT_NE(suspended, nullptr);
  EXPECT_EQ(suspended->status, Condition::Value::kTrue);
  EXPECT_TRUE(WritesNothing(scene.Decide()));
}

TEST(Suspend, ResumingRaisesTheEpochAndKeepsCounters) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.status().counters.process_failures = 2;
  Suspend(scene);
  scene.spec().suspend = false;
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_EQ(decision.intent->epoch, 2U);
  EXPECT_EQ(decision.intent->counters.process_failures, 2U);
  EXPECT_EQ(core::FindCondition(decision.intent->conditions, "Suspended")->status,
            Condition::Value::kFalse);
}

TEST(Suspend, ASuspendedJobMayChangeItsSizeAndItsSpec) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  Suspend(scene);
  scene.spec().num_machines = 3;
  EXPECT_FALSE(scene.Decide().intent);
  scene.spec().suspend = false;
  EXPECT_THAT(All<StartMachine>(scene.Settle()), testing::SizeIs(3));
}

}  // namespace
}  // namespace lockstep::control
