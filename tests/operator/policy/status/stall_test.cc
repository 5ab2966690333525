#include "tests/operator/policy/scene.h"

namespace lockstep::control::stall_test {
namespace {

using core::Condition;
using testing::HasSubstr;

void Report(Scene& scene, std::vector<core::RankProgress> progress) {
  scene.Running();
  scene.snapshot().coordinator->status.progress = std::move(progress);
  scene.Settle();
}

void Step(Scene& scene, int64_t step, Duration later = seconds(1)) {
  scene.Pass(later);
  core::RankProgress progress;
  progress.step = step;
  progress.total_steps = 100;
  Report(scene, {progress});
}

// The gang's coordinator says that it suspects a hang.
void Suspect(Scene& scene, const core::SuspectedHang& hang) {
  scene.Running();
  core::RankProgress progress;
  progress.step = hang.step;
  scene.snapshot().coordinator->status.progress = {progress};
  scene.snapshot().coordinator->status.hang = hang;
  scene.Settle();
}

const core::SuspectedHang kQuiet{.step = 5,
                                 .limit = seconds(60),
                                 .activity = core::GangActivity::kQuiet,
                                 .places = "ranks 0-2 are in barrier, rank 3 is in load"};

std::string Suspected(Scene& scene) {
  const Condition* suspected = core::FindCondition(scene.status().conditions, "HangSuspected");
  const bool holds = suspected != nullptr && suspected->status == Condition::Value::kTrue;
  return holds ? suspected->message : "";
}

Scene Runs() {
  Scene scene(MakeJob("gpt").Machines(1));
  scene.Run();
  return scene;
}

TEST(Stall, IsSuspectedWithWhereTheRanksAre) {
  Scene scene = Runs();
  Suspect(scene, kQuiet);
  EXPECT_EQ(Suspected(scene),
            "no step since step 5 for 60 s, and no rank works: a hang is suspected; ranks 0-2 are "
            "in barrier, rank 3 is in load; spec.health.hangAction: Restart would restart the "
            "gang");
  EXPECT_EQ(scene.status().state, core::JobState::kRunning);
  EXPECT_THAT(scene.status().reason, HasSubstr("no step since step 5 for 60 s"));
}

TEST(Stall, SaysWhoWorksAndWhatRestarts) {
  Scene scene = Runs();
  scene.spec().health.hang_timeout = minutes(20);
  Suspect(scene, {.step = 7,
                  .limit = minutes(10),
                  .activity = core::GangActivity::kSomeWork,
                  .who = "rank 0 works, the others wait"});
  EXPECT_THAT(Suspected(scene), HasSubstr("for 10 min, and rank 0 works, the others wait: a hang"));
  EXPECT_THAT(Suspected(scene), HasSubstr("`lockstep debug` shows where its ranks stand"));
  EXPECT_THAT(Suspected(scene), HasSubstr("the gang restarts at spec.health.hangTimeout"));

  Scene restarts = Runs();
  restarts.spec().health.hang_action = core::HangAction::kRestart;
  Suspect(restarts, kQuiet);
  EXPECT_THAT(Suspected(restarts), HasSubstr("restarts if no rank works for 10 min or longer"));
}

TEST(Stall, OfASilentOutputNeedsHangTimeoutToCountIt) {
  Scene scene = Runs();
  core::RankProgress printed;
  printed.step = 5;
  printed.source = core::StepSource::kOutput;
  scene.Running();
  scene.snapshot().coordinator->status.progress = {printed};
  scene.snapshot().coordinator->status.hang = core::SuspectedHang{.step = 5, .limit = minutes(1)};
  scene.Settle();
  EXPECT_THAT(Suspected(scene), HasSubstr("hangTimeout with spec.progress.from: Output would"));
}

TEST(Stall, IsOverOnceProgressResumes) {
  Scene scene = Runs();
  Suspect(scene, kQuiet);
  ASSERT_NE(Suspected(scene), "");
  scene.snapshot().coordinator->status.hang.reset();
  Step(scene, 6);
  EXPECT_EQ(Suspected(scene), "");
  EXPECT_EQ(scene.status().reason, "");
}

TEST(Stall, IsWrittenOnce) {
  Scene scene = Runs();
  Suspect(scene, kQuiet);
  ASSERT_NE(Suspected(scene), "");
  scene.Pass(minutes(1));
  scene.snapshot().coordinator->at = scene.now.boot;
  EXPECT_TRUE(WritesNothing(scene.Decide()));
}

TEST(Stall, StandsForAnOperatorThatHasJustStarted) {
  Scene scene = Runs();
  Suspect(scene, kQuiet);
  scene.ForgetAll();
  scene.notes().key_made = true;
  Suspect(scene, kQuiet);
  EXPECT_NE(Suspected(scene), "");
}

TEST(Stall, IsNotOverBecauseNoReportComes) {
  Scene scene = Runs();
  Suspect(scene, kQuiet);
  scene.snapshot().coordinator.reset();
  scene.Pass(minutes(1));
  scene.Decide();
  EXPECT_NE(Suspected(scene), "");
}

// ---- hangTimeout without progress ----

Scene WithTimeout(core::ProgressFrom from) {
  Scene scene = Runs();
  scene.spec().health.hang_timeout = seconds(20);
  scene.spec().progress.from = from;
  return scene;
}

// The message about hangTimeout; "": there is none.
std::string Unused(Scene& scene) {
  const Condition* said = core::FindCondition(scene.status().conditions, "HangSuspected");
  return said != nullptr && said->reason == "HangTimeoutUnused" ? said->message : "";
}

core::RankProgress Printed(int64_t step) {
  core::RankProgress progress;
  progress.step = step;
  progress.source = core::StepSource::kOutput;
  return progress;
}

TEST(Stall, HangTimeoutThatWatchesNothingIsSaidWhenItWouldHaveFired) {
  Scene scene = WithTimeout(core::ProgressFrom::kAuto);
  Report(scene, {});
  scene.Pass(seconds(19));
  Report(scene, {});
  EXPECT_EQ(Unused(scene), "");
  scene.Pass(seconds(1));
  Report(scene, {});
  EXPECT_THAT(Unused(scene), HasSubstr("(20s) has no effect: no process has called"));
  EXPECT_EQ(Suspected(scene), "");
  // A rank that reports is watched.
  Step(scene, 1);
  EXPECT_EQ(Unused(scene), "");
}

TEST(Stall, HangTimeoutCountsStepsFromOutputOnlyIfItIsAskedTo) {
  Scene scene = WithTimeout(core::ProgressFrom::kAuto);
  Report(scene, {Printed(5)});
  scene.Pass(seconds(19));
  Report(scene, {Printed(6)});
  scene.Pass(seconds(1));
  Report(scene, {Printed(7)});
  EXPECT_THAT(Unused(scene), HasSubstr("write spec.progress.from: Output to count them"));

  Scene asked = WithTimeout(core::ProgressFrom::kOutput);
  Report(asked, {Printed(5)});
  asked.Pass(seconds(19));
  Report(asked, {Printed(6)});
  asked.Pass(seconds(1));
  Report(asked, {Printed(7)});
  EXPECT_EQ(Unused(asked), "");
}

TEST(Stall, HangTimeoutThatFindsNothingInTheOutputIsSaidToo) {
  Scene scene = WithTimeout(core::ProgressFrom::kOutput);
  Report(scene, {});
  scene.Pass(seconds(20));
  Report(scene, {});
  EXPECT_THAT(Unused(scene), HasSubstr("no progress was found in the output"));
}

TEST(Stall, HangTimeoutThatWatchesARankIsNotSaidToBeUnused) {
  Scene scene = WithTimeout(core::ProgressFrom::kAuto);
  for (int64_t step = 1; step < 5; ++step) {
    Step(scene, step, seconds(9));
    EXPECT_EQ(Unused(scene), "");
  }
}

}  // namespace
}  // namespace lockstep::control::stall_test
