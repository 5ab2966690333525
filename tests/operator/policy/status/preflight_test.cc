#include "tests/operator/policy/scene.h"

namespace lockstep::control {
namespace {

using core::Condition;
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

core::TrainingJob JobWithPreflight() {
  return MakeJob("gpt").Machines(3).With([](core::Spec& spec) { spec.preflight.enabled = true; });
}

core::SlowMachine Slow(uint32_t machine, bool replaced) {
  return {machine, 1, "link 0.1 GB/s, where the median is 5 GB/s", replaced};
}

const Condition* Passed(Scene& scene) {
  return core::FindCondition(scene.status().conditions, "PreflightPassed");
}

TEST(PreflightPolicy, TheConditionIsUnknownUntilMachinesWereMeasuredAndThenHasTheFigures) {
  Scene scene(JobWithPreflight());
  scene.Run();
  EXPECT_EQ(Passed(scene), nullptr);
  Say(scene, {PreflightState::kMeasuring, "", {}});
  scene.Settle();
  ASSERT_NE(Passed(scene), nullptr);
  EXPECT_EQ(Passed(scene)->status, Condition::Value::kUnknown);
  EXPECT_EQ(Passed(scene)->reason, "Measuring");
  Say(scene, {PreflightState::kPassed, "link 5 GB/s", {Slow(1, true)}});
  scene.Settle();
  EXPECT_EQ(Passed(scene)->status, Condition::Value::kTrue);
  EXPECT_EQ(Passed(scene)->reason, "Passed");
  EXPECT_EQ(Passed(scene)->message,
            "machine 1 was replaced: link 0.1 GB/s, where the median is 5 GB/s; medians link 5 "
            "GB/s");
}

TEST(PreflightPolicy, TheConditionIsFalseWhileTheJobGoesOnWithASlowMachine) {
  Scene scene(JobWithPreflight());
  scene.Run();
  Say(scene, {PreflightState::kSlow, "", {Slow(1, true), Slow(2, false)}});
  scene.Settle();
  ASSERT_NE(Passed(scene), nullptr);
  EXPECT_EQ(Passed(scene)->status, Condition::Value::kFalse);
  EXPECT_THAT(Passed(scene)->message, testing::StartsWith("machine 2 is slow: link 0.1 GB/s"));
  core::SlowMachine earlier = Slow(2, false);
  earlier.attempt = 7;  // is not the one that runs
  Say(scene, {PreflightState::kPassed, "", {Slow(1, true), earlier}});
  scene.Settle();
  EXPECT_EQ(Passed(scene)->status, Condition::Value::kTrue);
  EXPECT_THAT(Passed(scene)->message, testing::Not(HasSubstr("machine 2")));
}

TEST(PreflightPolicy, TheConditionStandsWhenTheJobHasEndedAndGoesWithPreflight) {
  Scene scene(JobWithPreflight());
  scene.Run();
  Say(scene, {PreflightState::kPassed, "link 5 GB/s", {}});
  scene.Settle();
  scene.machine(0).end = Verdict(0, {1, 1}, 0, 1);
  const Decision ended = scene.Decide();
  ASSERT_TRUE(ended.intent && ended.intent->verdict);
  EXPECT_EQ(core::FindCondition(ended.intent->conditions, "PreflightPassed")->status,
            Condition::Value::kTrue);

  Scene without(JobWithPreflight());
  without.Run();
  Say(without, {PreflightState::kPassed, "link 5 GB/s", {}});
  without.Settle();
  without.spec().preflight.enabled = false;
  without.Settle();
  EXPECT_EQ(Passed(without), nullptr);
  EXPECT_FALSE(without.status().preflight);
}

TEST(PreflightPolicy, StatusShowsWhatTheGangMeasured) {
  Scene scene(JobWithPreflight());
  scene.Run();
  EXPECT_FALSE(scene.status().preflight);
  const core::PreflightStatus said{PreflightState::kPassed, "link 5 GB/s", {}};
  Say(scene, said);
  scene.Settle();
  EXPECT_EQ(scene.status().preflight, said);
}

TEST(PreflightPolicy, ASlowMachineIsReplacedAndNamedAndCostsNoBudget) {
  Scene scene(JobWithPreflight());
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

TEST(PreflightPolicy, AMachine0ThatLiesPaysForFurtherMachines) {
  Scene scene(JobWithPreflight());
  scene.Run();
  for (uint32_t round = 1; round <= 5; ++round) {
    core::GangStatus& gang = Say(scene, {});
    gang.machines[1].replace = true;
    gang.machines[1].slow = "it is slow, I say";
    scene.Settle();
    EXPECT_EQ(scene.status().attempts.Of(1), round + 1);
    EXPECT_EQ(scene.status().counters.replacements, round <= 3 ? 0u : round - 3);
    scene.machines().remove_if([](const MachineObservation& seen) { return seen.machine == 1; });
    scene.AddMachine(1, scene.status().attempts.Of(1));
  }
}

TEST(PreflightPolicy, WithoutPreflightSlownessIsNoReasonAndIsCharged) {
  Scene scene(MakeJob("gpt").Machines(3));
  scene.Run();
  core::GangStatus& gang = Say(scene, {});
  gang.machines[1].slow = "it is slow, I say";
  EXPECT_FALSE(scene.Decide().intent);
  gang.machines[1].replace = true;
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_EQ(decision.intent->counters.replacements, 1u);
}

TEST(PreflightPolicy, AMachineThatTheJobGoesOnWithIsToldOfOnce) {
  Scene scene(JobWithPreflight());
  scene.Run();
  Say(scene, {PreflightState::kSlow, "", {Slow(1, true), Slow(2, false)}});
  const Decision decision = scene.Decide();
  ASSERT_THAT(decision.events, SizeIs(1));
  EXPECT_THAT(decision.events[0].note,
              HasSubstr("machine 2 is slow, and the job continues with it"));
  scene.Settle();
  Say(scene, {PreflightState::kSlow, "", {Slow(1, true), Slow(2, false)}});
  EXPECT_THAT(scene.Decide().events, IsEmpty());
}

}  // namespace
}  // namespace lockstep::control
