#include <array>

#include "tests/operator/policy/scene.h"

namespace lockstep::control {
namespace {

using core::CoordinatorPhase;

core::GangStatus::GenerationStatus Began(uint32_t n, bool warm) {
  core::GangStatus::GenerationStatus generation;
  generation.generation = {1, n};
  generation.spawned = seconds(n);
  generation.warm = warm;
  generation.saved = milliseconds(1700);
  return generation;
}

class PrestartPolicy : public ::testing::Test {
 protected:
  PrestartPolicy() : scene(MakeJob("gpt").Machines(2)) {
    scene.spec().prestart = core::Prestart::kAuto;
    scene.Run();
  }

  core::PrestartStatus Say(uint32_t parked, std::string reason,
                           std::vector<core::GangStatus::GenerationStatus> history) {
    scene.Pass(seconds(2));
    core::GangStatus& gang = scene.Report(CoordinatorPhase::kRunning);
    gang.generation = history.back().generation;
    gang.parked = parked;
    gang.parked_reason = std::move(reason);
    gang.history = std::move(history);
    scene.Settle();
    return scene.status().prestart.value_or(core::PrestartStatus{});
  }

  Scene scene;
};

TEST_F(PrestartPolicy, TellsWhatWaitsAndCountsEachGenerationOnce) {
  core::PrestartStatus told = Say(0, "machine 0: waiting for the first step", {Began(1, false)});
  EXPECT_EQ(told.reason, "machine 0: waiting for the first step");
  EXPECT_EQ(told.cold, 1);
  EXPECT_EQ(told.warm, 0);
  EXPECT_EQ(told.saved_milliseconds, 0) << "no machine waits for another's imports in vain";
  told = Say(2, "", {Began(1, false), Began(2, true)});
  EXPECT_EQ(told.ready, 2);
  EXPECT_EQ(told.reason, "");
  scene.ForgetAll();  // another operator goes on
  scene.notes().key_made = true;
  told = Say(1, "", {Began(1, false), Began(2, true), Began(3, true)});
  EXPECT_EQ(told.cold, 1);
  EXPECT_EQ(told.warm, 2);
  EXPECT_EQ(told.saved_milliseconds, 3400);
}

TEST_F(PrestartPolicy, AGenerationThatNeverRanIsNotCounted) {
  auto died = Began(1, false);
  died.spawned.reset();
  EXPECT_EQ(Say(0, "", {died}).cold, 0);
  EXPECT_EQ(Say(0, "", {died, Began(2, false)}).cold, 1);
}

TEST_F(PrestartPolicy, AnAgentThatLiesIsHeldToWhatCanBe) {
  auto lie = Began(1, true);
  lie.saved = hours(1'000'000);
  const core::PrestartStatus told = Say(4'000'000'000, "", {lie});
  EXPECT_EQ(told.ready, scene.status().processes);
  EXPECT_EQ(told.saved_milliseconds, hours(1) / milliseconds(1));
}

TEST_F(PrestartPolicy, AJobThatHasEndedHasNobodyThatWaits) {
  core::Termination told;
  told.reason = "every process of every machine exited with code 0";
  for (const int code : {0, 70}) {
    Say(2, "machine 1: too little memory", {Began(1, true)});
    scene.machine(0).end = Verdict(code, {1, 1}, 0, 1, told);
    const Decision decision = scene.Decide();
    ASSERT_TRUE(decision.intent && decision.intent->prestart);
    EXPECT_EQ(decision.intent->prestart->ready, 0);
    EXPECT_EQ(decision.intent->prestart->reason, "");
    EXPECT_EQ(decision.intent->prestart->warm, 1) << "what it was worth stays";
    scene.machine(0).end.reset();
  }
}

TEST(NoPrestart, AJobWithoutItHasNoSuchStatus) {
  const auto change = std::to_array<void (*)(core::Spec&)>(
      {[](core::Spec& spec) { spec.prestart = core::Prestart::kNever; },
       [](core::Spec& spec) { spec.launch = core::Launch::kPerMachine; },
       [](core::Spec& spec) { spec.trainer.emplace(); }});
  for (const auto& each : change) {
    Scene scene(MakeJob("gpt").Machines(2));
    each(scene.spec());
    scene.Run();
    scene.Report(CoordinatorPhase::kRunning).history = {Began(1, false)};
    scene.Settle();
    EXPECT_FALSE(scene.status().prestart);
  }
}

}  // namespace
}  // namespace lockstep::control
