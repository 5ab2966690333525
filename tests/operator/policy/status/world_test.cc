#include "tests/operator/policy/scene.h"

namespace lockstep::control {
namespace {

using core::Condition;

constexpr const char* kDoubt =
    "rank 0 runs accelerate launch, which starts a separate training: write the program itself";

const Condition* Doubted(const core::JobStatus& status) {
  return core::FindCondition(status.conditions, "RanksNeverMet");
}

TEST(WorldPolicy, WhatMachine0SeesIsSaidOnceAndStays) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  EXPECT_EQ(Doubted(scene.status()), nullptr);
  const auto say = [&](const std::string& doubt) {
    scene.Pass(seconds(2));
    core::GangStatus& gang = scene.Report(core::CoordinatorPhase::kRunning);
    gang.generation = {1, 1};
    gang.doubt = doubt;
  };
  say(kDoubt);
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.status);
  scene.status() = *decision.status;
  ASSERT_NE(Doubted(scene.status()), nullptr);
  EXPECT_EQ(Doubted(scene.status())->status, Condition::Value::kTrue);
  EXPECT_EQ(Doubted(scene.status())->message, kDoubt);
  EXPECT_EQ(scene.status().reason, kDoubt);
  ASSERT_EQ(decision.events.size(), 1U);
  EXPECT_EQ(decision.events[0].reason, "RanksNeverMet");
  say(std::string(kDoubt) + std::string(1000, '.'));  // of which a status keeps the beginning
  EXPECT_TRUE(WritesNothing(scene.Decide()));
  say("");  // of another machine 0, which has not looked yet
  EXPECT_TRUE(WritesNothing(scene.Decide()));
}

TEST(WorldPolicy, TheVerdictOfMachine0TellsIt) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  core::Termination told;
  told.doubt = "the ranks never met";
  scene.machine(0).end = Verdict(0, {1, 1}, 0, 1, told);
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_EQ(decision.intent->state, core::JobState::kSucceeded);
  ASSERT_NE(Doubted(*decision.intent), nullptr);
  EXPECT_EQ(Doubted(*decision.intent)->message, told.doubt);
}

}  // namespace
}  // namespace lockstep::control
