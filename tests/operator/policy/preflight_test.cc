#include "tests/operator/policy/scene.h"

namespace lockstep::control {
namespace {

using core::CoordinatorPhase;
using core::PreflightState;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

core::GangStatus& Say(Scene& scene, core::PreflightStatus preflight) {
  scene.Pass(seconds(2));
  core::GangStatus& gang = scene.Report(CoordinatorPhase::kGathering);
  gang.preflight = std::move(preflight);
  return gang;
}

core::SlowMachine Slow(uint32_t machine, bool replaced) {
  return {machine, 1, "link 0.1 GB/s, where the median is 5 GB/s", replaced};
}

TEST(PreflightPolicy, StatusShowsWhatTheGangMeasured) {
  Scene scene(MakeJob("gpt").Machines(3));
  scene.Run();
  EXPECT_FALSE(scene.status().preflight);
  const core::PreflightStatus said{PreflightState::kPassed, "link 5 GB/s", {}};
  Say(scene, said);
  scene.Settle();
  EXPECT_EQ(scene.status().preflight, said);
}

TEST(PreflightPolicy, ASlowMachineIsReplacedAndNamedAndCostsNoBudget) {
  Scene scene(MakeJob("gpt").Machines(3));
  scene.Run();
  core::GangStatus& gang = Say(scene, {PreflightState::kWaiting, "", {Slow(1, true)}});
  gang.machines[1].replace = true;
  gang.machines[1].slow = Slow(1, true).because;
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_EQ(decision.intent->attempts.Of(1), 2u);
  EXPECT_EQ(decision.intent->attempts.Of(2), 1u);
  EXPECT_EQ(decision.intent->counters.replacements, 0u);
  EXPECT_FALSE(decision.intent->last_failure);
  ASSERT_THAT(decision.events, SizeIs(1));
  EXPECT_THAT(decision.events[0].note, HasSubstr("machine 1: it is slow: link 0.1 GB/s"));
}

TEST(PreflightPolicy, AMachineThatTheJobGoesOnWithIsToldOfOnce) {
  Scene scene(MakeJob("gpt").Machines(3));
  scene.Run();
  Say(scene, {PreflightState::kSlow, "", {Slow(1, true), Slow(2, false)}});
  const Decision decision = scene.Decide();
  ASSERT_THAT(decision.events, SizeIs(1));
  EXPECT_THAT(decision.events[0].note, HasSubstr("machine 2 is slow, and the job goes on with it"));
  scene.Settle();
  Say(scene, {PreflightState::kSlow, "", {Slow(1, true), Slow(2, false)}});
  EXPECT_THAT(scene.Decide().events, IsEmpty());
}

}  // namespace
}  // namespace lockstep::control
