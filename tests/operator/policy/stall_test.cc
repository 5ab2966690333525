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

// A gang that runs and, a second later, reports this step. Until then it reports the former one.
void Step(Scene& scene, int64_t step, Duration later = seconds(1)) {
  std::vector<core::RankProgress> former;
  if (scene.snapshot().coordinator) former = scene.snapshot().coordinator->status.progress;
  for (; later > seconds(10); later -= seconds(10)) {
    scene.Pass(seconds(10));
    Report(scene, former);
  }
  scene.Pass(later);
  core::RankProgress progress;
  progress.step = step;
  progress.total_steps = 100;
  Report(scene, {progress});
}

bool HangSuspected(Scene& scene) {
  const Condition* suspected = core::FindCondition(scene.status().conditions, "HangSuspected");
  return suspected != nullptr && suspected->status == Condition::Value::kTrue;
}

Scene Runs() {
  Scene scene(MakeJob("gpt").Machines(1));
  scene.Run();
  return scene;
}

TEST(Stall, IsSuspectedAfterThreeTimesTheLongestGapBetweenReports) {
  Scene scene = Runs();
  Step(scene, 1);
  Step(scene, 2, seconds(50));
  Step(scene, 3, seconds(10));
  Step(scene, 3, seconds(149));
  EXPECT_FALSE(HangSuspected(scene));
  Step(scene, 3, seconds(1));
  EXPECT_TRUE(HangSuspected(scene));
  EXPECT_EQ(scene.status().state, core::JobState::kRunning);
  EXPECT_THAT(scene.status().reason, HasSubstr("no step since step 3 for 2 min"));
}

TEST(Stall, IsNotSuspectedOfAProgramThatReportsEachHundredthStep) {
  Scene scene = Runs();
  for (int64_t step = 1; step < 100; step += 10) {
    Step(scene, step, seconds(0));
    Step(scene, step, seconds(69));
    EXPECT_FALSE(HangSuspected(scene)) << step;
    scene.Pass(seconds(1));
  }
}

TEST(Stall, AGapWithoutReportsIsNotCounted) {
  Scene scene = Runs();
  for (int64_t step = 1; step <= 3; ++step) Step(scene, step);
  scene.Pass(minutes(60));  // machine 0 is not reached
  core::RankProgress later;
  later.step = 50;
  later.total_steps = 100;
  Report(scene, {later});
  EXPECT_FALSE(HangSuspected(scene));
  Step(scene, 50, seconds(60));
  EXPECT_TRUE(HangSuspected(scene));
}

TEST(Stall, IsNotSuspectedBeforeTheThirdReport) {
  Scene scene = Runs();
  Step(scene, 1);
  Step(scene, 2);
  Step(scene, 2, minutes(30));
  EXPECT_FALSE(HangSuspected(scene));
}

TEST(Stall, IsSuspectedAfterAMinuteIfReportsAreFrequent) {
  Scene scene = Runs();
  for (int64_t step = 1; step <= 5; ++step) Step(scene, step);
  Step(scene, 5, seconds(59));
  EXPECT_FALSE(HangSuspected(scene));
  Step(scene, 5, seconds(1));
  EXPECT_TRUE(HangSuspected(scene));
}

TEST(Stall, IsSuspectedAfterHalfOfHangTimeoutIfThatIsSooner) {
  Scene scene = Runs();
  scene.spec().health.hang_timeout = seconds(40);
  Step(scene, 1);
  Step(scene, 1, seconds(19));
  EXPECT_FALSE(HangSuspected(scene));
  Step(scene, 1, seconds(1));
  EXPECT_TRUE(HangSuspected(scene));
}

TEST(Stall, IsOverOnceProgressResumes) {
  Scene scene = Runs();
  for (int64_t step = 1; step <= 5; ++step) Step(scene, step);
  Step(scene, 5, minutes(5));
  ASSERT_TRUE(HangSuspected(scene));
  Step(scene, 6);
  EXPECT_FALSE(HangSuspected(scene));
  EXPECT_EQ(scene.status().reason, "");
}

TEST(Stall, IsWrittenOnce) {
  Scene scene = Runs();
  for (int64_t step = 1; step <= 5; ++step) Step(scene, step);
  Step(scene, 5, minutes(5));
  ASSERT_TRUE(HangSuspected(scene));
  scene.Pass(minutes(1));
  scene.snapshot().coordinator->at = scene.now.boot;
  EXPECT_TRUE(WritesNothing(scene.Decide()));
}

TEST(Stall, StandsForAnOperatorThatHasJustStarted) {
  Scene scene = Runs();
  for (int64_t step = 1; step <= 5; ++step) Step(scene, step);
  Step(scene, 5, minutes(5));
  scene.ForgetAll();
  scene.notes().key_made = true;
  Step(scene, 5);
  EXPECT_TRUE(HangSuspected(scene));
  Step(scene, 6);
  EXPECT_FALSE(HangSuspected(scene));
}

TEST(Stall, IsNotSeenWhereNoReportComes) {
  Scene scene = Runs();
  for (int64_t step = 1; step <= 5; ++step) Step(scene, step);
  scene.Pass(minutes(30));
  scene.Settle();
  EXPECT_FALSE(HangSuspected(scene));
}

TEST(Stall, IsNotSeenBeforeAFirstStepNorAfterTheLast) {
  Scene scene = Runs();
  Step(scene, 0, minutes(30));
  Step(scene, 0, minutes(30));
  EXPECT_FALSE(HangSuspected(scene));
  for (int64_t step = 98; step <= 100; ++step) Step(scene, step);
  Step(scene, 100, minutes(30));
  EXPECT_FALSE(HangSuspected(scene));
}

// ---- hangTimeout without progress ----

Scene WithTimeout(core::ProgressFrom from) {
  Scene scene = Runs();
  scene.spec().health.hang_timeout = seconds(20);
  scene.spec().progress.from = from;
  return scene;
}

// What is said of hangTimeout; "": nothing.
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
  EXPECT_FALSE(HangSuspected(scene));
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
  EXPECT_THAT(Unused(scene), HasSubstr("write spec.progress.from: Output to count these"));

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
