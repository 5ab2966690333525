#include "worker/agent/metrics/telemetry.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace lockstep::agent {
namespace {

ProgressReport Report(int64_t step, double tokens,
                      double loss = std::numeric_limits<double>::quiet_NaN()) {
  ProgressReport report;
  report.rank = 3;
  report.step = step;
  report.tokens = tokens;
  report.loss = loss;
  return report;
}

TEST(TelemetryTest, TheRateOfTokensIsTheirNumberOverTheTimeBetweenReports) {
  Telemetry telemetry("gpt", 1, seconds(0));
  telemetry.OnSpawn(2);
  EXPECT_EQ(telemetry.OnReport(seconds(10), Report(1, 500)).tokens_per_second, 0);
  EXPECT_EQ(telemetry.OnReport(seconds(11), Report(2, 500)).tokens_per_second, 500);
  // Half of the smoothing time: half of the way to the new rate.
  EXPECT_EQ(telemetry.OnReport(seconds(12), Report(3, 1000)).tokens_per_second, 750);
}

TEST(TelemetryTest, ASignOfLifeKeepsWhatWasSaidBefore) {
  Telemetry telemetry("gpt", 1, seconds(0));
  telemetry.OnSpawn(2);
  telemetry.OnReport(seconds(10), Report(7, 100, 2.5));
  core::RankProgress progress = telemetry.OnReport(seconds(11), Report(0, 0));
  EXPECT_EQ(progress.step, 7);
  EXPECT_EQ(progress.loss, 2.5);
}

TEST(TelemetryTest, ANewGenerationForgetsTheLastOnesSteps) {
  Telemetry telemetry("gpt", 1, seconds(0));
  telemetry.OnSpawn(2);
  telemetry.OnReport(seconds(10), Report(7, 100, 2.5));
  telemetry.OnSpawn(2);
  core::RankProgress progress = telemetry.OnReport(seconds(20), Report(1, 100));
  EXPECT_EQ(progress.step, 1);
  EXPECT_EQ(progress.tokens_per_second, 0);
  EXPECT_TRUE(std::isnan(progress.loss));
}

}  // namespace
}  // namespace lockstep::agent
