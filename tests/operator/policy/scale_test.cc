#include "tests/operator/policy/scene.h"

namespace lockstep::control {
namespace {

using testing::SizeIs;

class Scale : public testing::TestWithParam<int> {};

// From three machines to as many.
TEST_P(Scale, StopsAllAtOneStepThenMakesAllAnew) {
  Scene scene(MakeJob("gpt").Machines(3));
  scene.Run();
  scene.spec().num_machines = GetParam();
  const Decision asked = scene.Decide();
  ASSERT_TRUE(asked.desired && asked.desired->stop);
  EXPECT_EQ(asked.desired->stop->reason, core::StopReason::kScaled);
  scene.snapshot().desired_state_accepted = true;
  scene.Report(core::CoordinatorPhase::kHeld);
  EXPECT_THAT(All<StopMachine>(scene.Settle()), SizeIs(3));
  scene.RemoveMachines();
  const Decision made = scene.Settle();
  EXPECT_EQ(scene.status().epoch, 2U);
  EXPECT_EQ(scene.status().replicas, GetParam());
  scene.Make(made);
  EXPECT_THAT(All<StartMachine>(made), SizeIs(static_cast<size_t>(GetParam())));
}

INSTANTIATE_TEST_SUITE_P(Machines, Scale, testing::Values(1, 2, 5));

TEST(Scaling, BackMidwayKeepsTheGang) {
  Scene scene(MakeJob("gpt").Machines(3));
  scene.Run();
  scene.spec().num_machines = 5;
  scene.Settle();
  scene.spec().num_machines = 3;
  const Decision decision = scene.Decide();
  EXPECT_FALSE(decision.intent);
  EXPECT_FALSE(decision.desired->stop);
}

TEST(Scaling, TheDeadlineGoesOnCounting) {
  Scene scene(MakeJob("gpt").Machines(3));
  scene.Run();
  const auto created = scene.status().timings.created;
  scene.Pass(minutes(1));
  scene.spec().num_machines = 2;
  scene.Settle();
  scene.Pass(seconds(2));
  scene.Settle();
  scene.RemoveMachines();
  scene.Settle();
  EXPECT_EQ(scene.status().timings.created, created);
}

}  // namespace
}  // namespace lockstep::control
