#include "worker/agent/ranks/rank_metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/worker/agent/metrics/page.h"

namespace lockstep::agent {
namespace {

constexpr pid_t kPid = 42;
constexpr double kNotSaid = std::numeric_limits<double>::quiet_NaN();

ProgressReport Reporting(std::map<std::string, double> metrics) {
  return {3, 0, 0, kNotSaid, 0, std::move(metrics)};
}

class RankMetricsTest : public testing::Test {
 protected:
  RankMetricsTest() {
    views_[0].rank = 3;
    views_[0].pid = kPid;
    ranks_.OnSpawn(2);
  }

  core::RankProgress Report(Time at, int64_t step, double tokens, double loss = kNotSaid) {
    now_ = at;
    return ranks_.OnReport({3, step, 0, loss, tokens, {}});
  }
  double At(const std::string& name, const std::string& more = "") {
    return PageOf(ranks_).At(name + R"({rank="3")" + more + "}");
  }

  topology::FixtureTree tree_;
  Time now_ = seconds(10);
  std::vector<RankView> views_{1};
  RankMetrics ranks_{[this] { return views_; }, [this] { return now_; },
                     MachineStatsReader(tree_.root())};
};

// ---- what the coordinator is told ----

TEST_F(RankMetricsTest, TheRateOfTokensIsTheirNumberOverTheTimeBetweenReports) {
  EXPECT_EQ(Report(seconds(10), 1, 500).tokens_per_second, 0);
  EXPECT_EQ(Report(seconds(11), 2, 500).tokens_per_second, 500);
  // Half of the smoothing time: half of the way to the new rate.
  EXPECT_EQ(Report(seconds(12), 3, 1000).tokens_per_second, 750);
}

TEST_F(RankMetricsTest, FiguresOfTheProgramsOwnAreToldOnAndTimesAreNot) {
  const auto figures = [this](std::map<std::string, double> metrics) {
    return ranks_.OnReport(Reporting(std::move(metrics))).figures;
  };
  EXPECT_EQ(figures({{"accuracy", 0.5}, {"data_seconds", 1}, {"mfu", 0.3}, {"gpu_index", 2}}),
            (std::vector<core::NamedFigure>{{"accuracy", 0.5}}));
  EXPECT_EQ(figures({{"a/b", 7}}), (std::vector<core::NamedFigure>{{"a/b", 7}, {"accuracy", 0.5}}));
  EXPECT_EQ(figures({{"accuracy", 0.75}, {"line\nbreak", 1}, {std::string(65, 'n'), 1}}),
            (std::vector<core::NamedFigure>{{"a/b", 7}, {"accuracy", 0.75}}));
}

TEST_F(RankMetricsTest, TheFirstNamesOfAMachineAreToldOnAndOthersShownAlone) {
  std::map<std::string, double> many;
  for (int i = 0; i < 30; ++i) many["name" + std::to_string(10 + i)] = i;
  EXPECT_EQ(ranks_.OnReport(Reporting(many)).figures.size(), core::kMaxNamedFigures);
  ranks_.OnSpawn(2);
  EXPECT_TRUE(ranks_.OnReport(Reporting({{"other", 1}})).figures.empty());
  EXPECT_EQ(ranks_.OnReport(Reporting({{"name10", 1}})).figures.size(), 1U);
}

TEST_F(RankMetricsTest, FlopsAreToldOnAndKeptWhileNothingNewIsSaid) {
  EXPECT_EQ(Report(seconds(10), 1, 500).known.teraflops, 0);
  EXPECT_EQ(ranks_.OnReport(Reporting({{"teraflops", 412.5}, {"mfu", 0.375}})).known.mfu, 0.375);
  core::RankProgress progress = Report(seconds(11), 2, 500);
  EXPECT_EQ(progress.known.teraflops, 412.5);
  EXPECT_EQ(progress.known.mfu, 0.375);
  progress = ranks_.OnReport(Reporting({{"teraflops", std::nan("")}, {"mfu", -1}}));
  EXPECT_EQ(progress.known.teraflops, 0);
  EXPECT_EQ(progress.known.mfu, 0);
}

TEST_F(RankMetricsTest, AKnownFigureIsToldOnUnderItsOwnNameAlone) {
  for (const core::KnownFigure& figure : core::kKnownFigures) {
    const core::RankProgress progress =
        ranks_.OnReport(Reporting({{std::string(figure.reported), 3}}));
    EXPECT_EQ(progress.known.*figure.value, 3) << figure.name;
    EXPECT_TRUE(progress.figures.empty()) << figure.name;
  }
}

TEST_F(RankMetricsTest, TheScalingEfficiencyIsToldOnAndHasAFamily) {
  Report(seconds(10), 1, 500);
  EXPECT_FALSE(PageOf(ranks_).families.contains("lockstep_trainer_scaling_efficiency"));
  EXPECT_EQ(ranks_.OnReport(Reporting({{"scaling_efficiency", 0.9375}})).known.scaling, 0.9375);
  EXPECT_EQ(At("lockstep_trainer_scaling_efficiency"), 0.9375);
}

TEST_F(RankMetricsTest, WhatARankSaysOfItsGpuIsToldOnUntilItSaysMore) {
  EXPECT_EQ(Report(seconds(10), 1, 500).gpu, -1);
  core::RankProgress progress = ranks_.OnReport(Reporting({{"gpu_index", 5},
                                                           {"gpu_sm_clock_hertz", 1.2e9},
                                                           {"gpu_max_sm_clock_hertz", 1.98e9},
                                                           {"gpu_slowed_by_power", 1},
                                                           {"gpu_slowed_by_heat", 1},
                                                           {"gpu_slowed_by_hardware", 0}}));
  progress = Report(seconds(11), 2, 500);
  EXPECT_EQ(progress.gpu, 5);
  EXPECT_EQ(progress.gpu_clock.hertz, 1.2e9);
  EXPECT_EQ(progress.gpu_clock.most, 1.98e9);
  EXPECT_EQ(progress.gpu_clock.slowed, core::kSlowedByPower | core::kSlowedByHeat);
  progress = ranks_.OnReport(Reporting({{"gpu_index", 1e30}, {"gpu_slowed_by_heat", 0}}));
  EXPECT_EQ(progress.gpu, 5);
  EXPECT_EQ(progress.gpu_clock.slowed, core::kSlowedByPower);
}

TEST_F(RankMetricsTest, AValidationIsInNoStepAndInNoRateOfTokens) {
  Report(seconds(10), 1, 500);
  Report(seconds(12), 0, 0);  // a sign of life from the midst of it
  now_ = seconds(14);
  const auto progress = ranks_.OnReport(
      {3, 2, 0, kNotSaid, 500, {{"validation_seconds", 3}, {"validation_loss", 2}}});
  EXPECT_EQ(progress.tokens_per_second, 500);
  EXPECT_EQ(At("lockstep_rank_step_seconds_sum"), 1);
  EXPECT_EQ(At("lockstep_trainer_validation_loss"), 2);
  EXPECT_EQ(At("lockstep_rank_progress_age_seconds"), 0);
  // One that took longer than there was time is of no step.
  now_ = seconds(15);
  ranks_.OnReport({3, 3, 0, kNotSaid, 500, {{"validation_seconds", 9}}});
  EXPECT_EQ(At("lockstep_rank_step_seconds_count"), 1);
  EXPECT_EQ(At("lockstep_rank_tokens_per_second"), 500);
}

TEST_F(RankMetricsTest, AValidationBeforeTheFirstStepIsInNoStepEither) {
  Report(seconds(10), 0, 0);  // from the midst of it
  now_ = seconds(13);
  ranks_.OnReport(Reporting({{"validation_seconds", 4}, {"validation_loss", 2}}));
  EXPECT_EQ(Report(seconds(15), 31, 500).tokens_per_second, 250);
  EXPECT_FALSE(PageOf(ranks_).families.contains("lockstep_step_seconds"));
  Report(seconds(16), 32, 500);
  EXPECT_EQ(At("lockstep_rank_step_seconds_sum"), 1);
}

TEST_F(RankMetricsTest, ShowsTheLossOnHeldOutDataOnceItWasToldInThisGeneration) {
  ranks_.OnReport({3, 4, 0, 1.5, 0, {}});
  EXPECT_FALSE(PageOf(ranks_).families.contains("lockstep_trainer_validation_loss"));
  ranks_.OnReport(Reporting({{"validation_loss", 2}, {"validation_perplexity", 7.389}}));
  ranks_.OnReport({3, 5, 0, 1.5, 0, {}});
  EXPECT_EQ(At("lockstep_trainer_validation_loss"), 2);
  EXPECT_EQ(At("lockstep_trainer_validation_perplexity"), 7.389);
  EXPECT_EQ(At("lockstep_reported", R"(,name="validation_loss")"), 2);
}

TEST_F(RankMetricsTest, WaitsAddUpOverTheStepsThatTheyAreTheMeanOf) {
  const auto report = [&](int64_t step, double wait) {
    return ranks_.OnReport({3, step, 0, kNotSaid, 0, {{"collective_wait_seconds", wait}}});
  };
  EXPECT_EQ(report(4, 0.5).waits, 1);  // how many steps it speaks for is not known yet
  const core::RankProgress progress = report(14, 0.25);
  EXPECT_EQ(progress.waits, 11);
  EXPECT_DOUBLE_EQ(progress.waited, 0.5 + 10 * 0.25);
  EXPECT_EQ(report(0, 0.25).waits, 12);  // told by itself
  EXPECT_EQ(report(14, -1).waits, 12);
  EXPECT_EQ(Report(seconds(12), 20, 0).waits, 12);
}

TEST_F(RankMetricsTest, ARankLoadsItsCheckpointOnceAGeneration) {
  const auto report = [&](double load) {
    return ranks_.OnReport({3, 4, 0, kNotSaid, 0, {{"checkpoint_load_seconds", load}}});
  };
  EXPECT_EQ(report(-1).loaded, 0);
  EXPECT_EQ(report(0.5).loaded, 0.5);
  EXPECT_EQ(report(9).loaded, 0.5);
  ranks_.OnSpawn(2);
  EXPECT_EQ(report(1e300).loaded, 1e6);
}

TEST_F(RankMetricsTest, ASignOfLifeKeepsWhatWasSaidBefore) {
  Report(seconds(10), 7, 100, 2.5);
  core::RankProgress progress = Report(seconds(11), 0, 0);
  EXPECT_EQ(progress.step, 7);
  EXPECT_EQ(progress.loss, 2.5);
}

TEST_F(RankMetricsTest, ANewGenerationForgetsTheLastOnesSteps) {
  Report(seconds(10), 7, 100, 2.5);
  ranks_.OnSpawn(2);
  core::RankProgress progress = Report(seconds(20), 1, 100);
  EXPECT_EQ(progress.step, 1);
  EXPECT_EQ(progress.tokens_per_second, 0);
  EXPECT_TRUE(std::isnan(progress.loss));
  EXPECT_EQ(PageOf(ranks_).At("lockstep_process_restarts_total"), 2);
}

TEST_F(RankMetricsTest, WhoLivesOnIntoAGenerationIsNotStartedAgain) {
  EXPECT_EQ(PageOf(ranks_).At("lockstep_processes_kept_total"), 0);
  ranks_.OnSpawn(2, 1);
  ranks_.OnSpawn(2, 2);
  EXPECT_EQ(PageOf(ranks_).At("lockstep_process_restarts_total"), 1);
  EXPECT_EQ(PageOf(ranks_).At("lockstep_processes_kept_total"), 3);
}

// ---- what is shown ----

TEST_F(RankMetricsTest, ShowsWhatARankDoes) {
  AddProcess(&tree_, kPid, 100, 250);
  views_[0].bound = true;
  views_[0].binding.mode = core::Binding::kNode;
  ranks_.OnReport({3, 8, 100, 1.5, 4000, {{"gradient_norm", 0.25}}});
  now_ = seconds(11);
  ranks_.OnReport({3, 10, 100, 1.25, 4000, {{"gradient_norm", 0.5}}});
  now_ = seconds(14);
  EXPECT_EQ(At("lockstep_rank_up"), 1);
  EXPECT_EQ(At("lockstep_rank_step"), 10);
  EXPECT_EQ(At("lockstep_rank_total_steps"), 100);
  EXPECT_EQ(At("lockstep_rank_loss"), 1.25);
  EXPECT_EQ(At("lockstep_rank_tokens_per_second"), 4000);
  EXPECT_EQ(At("lockstep_rank_progress_age_seconds"), 3);
  EXPECT_EQ(At("lockstep_rank_cpu_seconds_total"), 2.5);
  EXPECT_EQ(At("lockstep_rank_resident_memory_bytes"), 4096);
  EXPECT_EQ(At("lockstep_rank_binding_info", R"(,mode="Node")"), 1);
  EXPECT_EQ(At("lockstep_reported", R"(,name="gradient_norm")"), 0.5);
  // Two steps, half a second each: one observation.
  EXPECT_EQ(At("lockstep_rank_step_seconds_count"), 1);
  EXPECT_EQ(At("lockstep_rank_step_seconds_sum"), 0.5);
  EXPECT_EQ(PageOf(ranks_).At("lockstep_step_seconds_sum"), 0.5);
}

TEST_F(RankMetricsTest, ShowsHowMuchOfARanksMemoryIsNearItsCpus) {
  views_[0].bound = true;
  views_[0].binding.placement = {.local_bytes = 3 << 20, .remote_bytes = 1 << 20};
  EXPECT_EQ(At("lockstep_rank_numa_memory_bytes", R"(,locality="local")"), 3 << 20);
  EXPECT_EQ(At("lockstep_rank_numa_memory_bytes", R"(,locality="remote")"), 1 << 20);
}

TEST_F(RankMetricsTest, WhatIsNotKnownIsAbsentAndNotZero) {
  views_[0].pid = 0;
  const Page page = PageOf(ranks_);
  EXPECT_EQ(page.samples.size(), 4U);
  EXPECT_EQ(page.At(R"(lockstep_rank_up{rank="3"})"), 0);
  EXPECT_EQ(page.At("lockstep_process_restarts_total"), 0);
  EXPECT_EQ(page.At("lockstep_processes_kept_total"), 0);
  EXPECT_EQ(page.At("lockstep_reported_left_out_total"), 0);
}

TEST_F(RankMetricsTest, CpuTimeOfARankGoesOnWhenItsProcessIsReplaced) {
  AddProcess(&tree_, kPid, 100, 250);
  EXPECT_EQ(At("lockstep_rank_cpu_seconds_total"), 2.5);
  views_[0].pid = 0;
  EXPECT_EQ(At("lockstep_rank_cpu_seconds_total"), 2.5) << "between two processes";
  views_[0].pid = kPid;
  AddProcess(&tree_, kPid, 200, 50);
  EXPECT_EQ(At("lockstep_rank_cpu_seconds_total"), 3);
}

TEST_F(RankMetricsTest, OnlyTheFirst64ReportedNamesAreShownAndTheyStay) {
  ProgressReport report = Reporting({{"zz_came_first", 1}});
  ranks_.OnReport(report);
  for (int i = 0; i < 100; ++i) report.metrics["name" + std::to_string(i)] = i;
  ranks_.OnReport(report);
  const Page page = PageOf(ranks_);
  int shown = 0;
  for (const Page::Series& each : page.series) shown += each.family == "lockstep_reported" ? 1 : 0;
  EXPECT_EQ(shown, 64);
  EXPECT_EQ(page.At(R"(lockstep_reported{rank="3",name="zz_came_first"})"), 1);
  EXPECT_EQ(page.At("lockstep_reported_left_out_total"), 37);
}

TEST_F(RankMetricsTest, ReportedNamesOfAnyTextKeepTheFormat) {
  ranks_.OnReport(Reporting(
      {{"a\"b", 1}, {"back\\slash", 2}, {"two\nlines", 3}, {"", 4}, {std::string(200, 'x'), 5}}));
  EXPECT_EQ(At("lockstep_reported", R"(,name="a\"b")"), 1);
  EXPECT_EQ(At("lockstep_reported", R"(,name="two\nlines")"), 3);
  EXPECT_EQ(PageOf(ranks_).At("lockstep_reported_left_out_total"), 1) << "the one that is too long";
}

TEST_F(RankMetricsTest, RanksThatGotOtherNumbersInANewGenerationHaveStepTimes) {
  const auto steps_of = [&](uint32_t first) {
    for (uint32_t rank = first; rank < first + 64; ++rank) {
      for (const int64_t step : {1, 2}) {
        now_ += seconds(1);
        ranks_.OnReport({rank, step, 0, kNotSaid, 0, {}});
      }
    }
    return PageOf(ranks_).At("lockstep_rank_step_seconds_count{rank=\"" +
                             std::to_string(first + 63) + "\"}");
  };
  EXPECT_EQ(steps_of(128), 1);
  ranks_.OnSpawn(64);
  EXPECT_EQ(steps_of(64), 1);
}

TEST_F(RankMetricsTest, StepTimesOfMadeUpRanksDoNotGrowThePage) {
  for (uint32_t rank = 0; rank < 10000; ++rank) {
    for (const int64_t step : {1, 2}) {
      now_ += seconds(1);
      ranks_.OnReport({rank, step, 0, kNotSaid, 0, {}});
    }
  }
  EXPECT_LT(Expose({&ranks_}, {}).size(), 16U * 1024);
}

TEST_F(RankMetricsTest, CountersNeverFallFromScrapeToScrape) {
  std::map<std::string, double> before;
  for (int n = 1; n <= 200; ++n) {
    if (n % 9 == 0) ranks_.OnSpawn(2);
    views_[0].pid = n % 7 == 0 ? 0 : kPid;
    AddProcess(&tree_, kPid, n, 100 / n);
    Report(seconds(n * 10), n, 100);
    const Page page = PageOf(ranks_);
    for (const auto& [series, value] : before) ASSERT_GE(page.At(series), value) << series;
    before = page.samples;
    std::erase_if(before, [&](const auto& each) {
      const std::string name = each.first.substr(0, each.first.find('{'));
      return page.families.at(page.FamilyOf(name)).type == "gauge";
    });
  }
  EXPECT_GT(before.size(), 10U);
}

}  // namespace
}  // namespace lockstep::agent
