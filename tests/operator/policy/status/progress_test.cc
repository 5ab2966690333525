#include "tests/operator/policy/scene.h"

namespace lockstep::control {
namespace {

using core::CoordinatorPhase;
using testing::HasSubstr;

// A job of one machine, which has reported its step `n` of 100.
void Step(Scene& scene, int64_t n) {
  core::RankProgress progress;
  progress.step = n;
  progress.total_steps = 100;
  scene.Report(CoordinatorPhase::kRunning).progress = {progress};
}

TEST(Progress, IsWrittenAtMostEveryThirtySeconds) {
  Scene scene(MakeJob("gpt").Machines(1));
  scene.Run();
  Step(scene, 10);
  scene.Pass(seconds(1));
  scene.Settle();
  EXPECT_THAT(scene.status().progress_text, HasSubstr("10/100 10%"));
  int writes = 0;
  for (int i = 0; i < 60; ++i) {
    scene.Pass(seconds(1));
    Step(scene, 11 + i);
    const Decision decision = scene.Decide();
    if (!decision.status) continue;
    ++writes;
    scene.status() = *decision.status;
  }
  EXPECT_EQ(writes, 2);
}

TEST(Progress, HasTheFiguresThatProgramsNameBesideItsOwn) {
  Scene scene(MakeJob("gpt").Machines(1));
  scene.Run();
  core::RankProgress progress;
  progress.step = 10;
  progress.loss = 2.5;
  progress.figures = {{"accuracy", 0.875}, {"loss", 99}};
  scene.Report(CoordinatorPhase::kRunning).progress = {progress};
  scene.Pass(seconds(1));
  scene.Settle();
  EXPECT_EQ(scene.status().progress->metrics,
            (std::vector<core::ProgressMetric>{{"loss", "2.5"}, {"accuracy", "0.875"}}));
}

TEST(Progress, WaitsWhileManyOtherJobsTellTheirs) {
  Scene scene(MakeJob("gpt").Machines(1));
  scene.Run();
  Step(scene, 10);
  scene.Pass(seconds(1));
  scene.snapshot().may_tell_progress = false;
  const Decision held = scene.Decide();
  EXPECT_FALSE(held.status);
  EXPECT_TRUE(held.progress_waits);
  scene.snapshot().may_tell_progress = true;
  const Decision told = scene.Decide();
  ASSERT_TRUE(told.status);
  EXPECT_FALSE(told.progress_waits);
  EXPECT_THAT(told.status->progress_text, HasSubstr("10/100 10%"));
}

TEST(Progress, TheLastIsWrittenWithTheVerdictAndPromisesNoMore) {
  Scene scene(MakeJob("gpt").Machines(1));
  scene.Run();
  for (const int64_t step : {10, 100}) {
    Step(scene, step);
    scene.Pass(seconds(1));
    scene.Settle();
  }
  EXPECT_EQ(scene.status().progress->step, 10);
  scene.machine(0).end = Verdict(0, {1, 1}, 1, 1);
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent && decision.intent->verdict);
  EXPECT_EQ(decision.intent->progress_text, "100/100 100%");
  EXPECT_FALSE(decision.intent->progress->eta_seconds);
}

TEST(Progress, WhatTheLastAgentToldIsNewerThanWhatWasHeard) {
  Scene scene(MakeJob("gpt").Machines(1));
  scene.Run();
  Step(scene, 90);
  scene.Settle();
  core::Termination told;
  told.progress.emplace();
  told.progress->step = told.progress->total_steps = 100;
  scene.machine(0).end = Verdict(0, {1, 1}, 0, 1, told);
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_EQ(decision.intent->progress_text, "100/100 100%");
}

TEST(Progress, OfAnotherMachineThatEndsFirstTheLastStepCounts) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  core::RankProgress heard;
  heard.step = 90;
  heard.total_steps = 100;
  heard.tokens_per_second = 8;
  scene.Report(CoordinatorPhase::kRunning).progress = {heard};
  scene.Settle();
  core::Termination told;
  told.progress.emplace();
  told.progress->step = told.progress->total_steps = 100;
  told.progress->tokens_per_second = 2;  // its own ranks'
  scene.machine(1).end = Verdict(0, {1, 1}, 1, 1, told);
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent && decision.intent->progress);
  EXPECT_EQ(decision.intent->progress_text, "100/100 100%");
  EXPECT_EQ(decision.intent->progress->metrics.back().value, "8");
}

TEST(Progress, HoldsTheFiguresThatProgramsTellAndNoOthers) {
  Scene scene(MakeJob("gpt").Machines(1));
  scene.Run();
  core::RankProgress said;
  said.step = 10;
  said.loss = 2.5;
  said.known.teraflops = 412.5;
  said.known.mfu = 0.375;
  said.known.scaling = 0.9375;
  scene.Report(CoordinatorPhase::kRunning).progress = {said};
  scene.Pass(seconds(1));
  scene.Settle();
  ASSERT_TRUE(scene.status().progress);
  const std::vector<core::ProgressMetric> figures = {
      {"loss", "2.5"}, {"teraflops", "412.5"}, {"mfu", "0.375"}, {"scalingEfficiency", "0.9375"}};
  EXPECT_EQ(scene.status().progress->metrics, figures);
}

TEST(Progress, CountingOnBeyondTheTotalIsAHundredPercent) {
  Scene scene(MakeJob("gpt").Machines(1));
  scene.Run();
  Step(scene, 1010);
  scene.Pass(seconds(1));
  scene.Settle();
  EXPECT_EQ(scene.status().progress->percent, 100);
}

TEST(Progress, WhatStandsOfAGangThatNobodyHearsIsLeftWithoutAnEta) {
  Scene scene(MakeJob("gpt").Machines(1));
  scene.Run();
  scene.status().progress = core::JobProgress{.step = 40, .total_steps = 100, .percent = 40};
  scene.status().progress->eta_seconds = 60;
  scene.snapshot().coordinator.reset();
  scene.machine(0).end = Verdict(0, {1, 1}, 1, 1);
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_EQ(decision.intent->progress_text, "40/100 40%");
  EXPECT_FALSE(decision.intent->progress->eta_seconds);
}

}  // namespace
}  // namespace lockstep::control
