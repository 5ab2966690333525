#include "cli/tune/tune_result.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep::cli::tune_result_test {
namespace {

// A point each half second, at 4 steps a second after two slow seconds.
Json Series(int points) {
  Json series = {{"t", Json::array()}, {"step", Json::array()}};
  for (int i = 0; i < points; ++i) {
    series["t"].push_back(3 + 0.5 * i);
    series["step"].push_back(i < 4 ? 1 : 1 + 2 * (i - 4));
  }
  return series;
}

TuneRow Row(int32_t processes, const std::vector<double>& steps) {
  TuneRow row;
  row.setting.processes = processes;
  for (const double each : steps) row.stretches.push_back({each, {}});
  return row;
}

TEST(TuneResultTest, TheRateIsThatAfterTheWarmUp) {
  const Result<Stretch> stretch = MeasureStretch(Series(30), true, {seconds(2), seconds(20)});
  ASSERT_TRUE(stretch.ok()) << stretch.error().message;
  EXPECT_NEAR(stretch->steps_per_second, 4, 1e-9);
  EXPECT_FALSE(stretch->tokens_per_second.has_value());
}

TEST(TuneResultTest, AfterTheStretchNothingCounts) {
  Json series = Series(12);
  for (int i = 0; i < 20; ++i) {
    series["t"].push_back(20 + i);
    series["step"].push_back(1000);
  }
  const Result<Stretch> stretch = MeasureStretch(series, true, {seconds(2), seconds(4)});
  ASSERT_TRUE(stretch.ok()) << stretch.error().message;
  EXPECT_NEAR(stretch->steps_per_second, 4, 1e-9);
}

TEST(TuneResultTest, TokensCountOnlyIfTheProgramReportsThem) {
  Json series = Series(30);
  series["tokensPerSecond"] = Json::array();
  for (int i = 0; i < 30; ++i) series["tokensPerSecond"].push_back(i < 4 ? Json() : Json(100));
  EXPECT_EQ(MeasureStretch(series, true, {seconds(2), seconds(20)})->tokens_per_second, 100);
  EXPECT_FALSE(
      MeasureStretch(series, false, {seconds(2), seconds(20)})->tokens_per_second.has_value());
}

TEST(TuneResultTest, TooFewPointsAreAnErrorThatSaysWhatToDo) {
  const Result<Stretch> stretch = MeasureStretch(Series(6), true, {seconds(2), seconds(20)});
  ASSERT_FALSE(stretch.ok());
  EXPECT_EQ(stretch.error().message,
            "progress was seen 2 times in 20.0 s after the warm-up, fewer than 4: measure longer, "
            "with --seconds");
  EXPECT_FALSE(MeasureStretch(Json::object(), true, {}).ok());
  Json still = Series(30);
  for (Json& step : still["step"]) step = 7;
  EXPECT_EQ(MeasureStretch(still, true, {}).error().message,
            "steps did not grow after the warm-up");
}

TEST(TuneResultTest, EfficiencyIsWorkOfEachRankAgainstTheFewest) {
  const std::vector<TuneRow> rows = {Row(1, {10, 10, 10}), Row(2, {9, 9, 9}), Row(4, {5, 5, 5})};
  const TuneReport grows = Conclude(rows, StepWork::kPerProcess, 1);
  EXPECT_EQ(grows.unit, "steps/s x ranks");
  EXPECT_NEAR(*grows.rows[1].efficiency, 0.9, 1e-9);
  EXPECT_NEAR(*grows.rows[2].efficiency, 0.5, 1e-9);
  EXPECT_EQ(grows.best, 2U);
  const TuneReport fixed = Conclude(rows, StepWork::kGlobal, 1);
  EXPECT_EQ(fixed.unit, "steps/s");
  EXPECT_NEAR(*fixed.rows[1].efficiency, 0.45, 1e-9);
  EXPECT_EQ(fixed.best, 0U);
}

TEST(TuneResultTest, ReportedTokensAreTheWork) {
  std::vector<TuneRow> rows = {Row(1, {10, 10}), Row(2, {6, 6})};
  for (Stretch& each : rows[0].stretches) each.tokens_per_second = 100;
  for (Stretch& each : rows[1].stretches) each.tokens_per_second = 150;
  const TuneReport report = Conclude(rows, StepWork::kPerProcess, 1);
  EXPECT_EQ(report.unit, "tokens/s");
  EXPECT_EQ(report.best, 1U);
  EXPECT_NEAR(*report.rows[1].efficiency, 0.75, 1e-9);
  rows[0].stretches[0].tokens_per_second.reset();
  EXPECT_EQ(Conclude(rows, StepWork::kPerProcess, 1).unit, "steps/s x ranks");
}

TEST(TuneResultTest, FewerRanksAreNamedIfTheIntervalsOverlap) {
  const TuneReport close =
      Conclude({Row(1, {10, 11, 12}), Row(2, {5.4, 5.6, 5.8})}, StepWork::kPerProcess, 1);
  EXPECT_EQ(close.best, 1U);
  EXPECT_EQ(close.smaller, 0U);
  EXPECT_NE(TuneTable(close).find("not shown to do less"), std::string::npos);
  const TuneReport apart =
      Conclude({Row(1, {10, 11, 12}), Row(2, {9, 9.5, 10})}, StepWork::kPerProcess, 1);
  EXPECT_EQ(apart.best, 1U);
  EXPECT_FALSE(apart.smaller.has_value());
}

TEST(TuneResultTest, ASettingThatFailedSaysWhyAndIsNeverTheBest) {
  std::vector<TuneRow> rows = {Row(1, {10}), Row(2, {})};
  rows[1].failed = "rank 1 on machine 0 was killed by SIGKILL <out of memory>";
  const TuneReport report = Conclude(rows, StepWork::kPerProcess, 1);
  EXPECT_EQ(report.best, 0U);
  EXPECT_NE(TuneTable(report).find("killed by SIGKILL"), std::string::npos);
  EXPECT_EQ(TuneJson(report)["settings"][1]["failed"], rows[1].failed);
  EXPECT_FALSE(TuneJson(report)["settings"][1].contains("work"));
  const std::string page = TuneHtml(report, "<job>");
  EXPECT_NE(page.find("&lt;out of memory"), std::string::npos);
  EXPECT_EQ(page.find("<out"), std::string::npos);
  EXPECT_EQ(page.find("<job>"), std::string::npos);
}

TEST(TuneResultTest, WithoutAFigureThereIsNoBest) {
  std::vector<TuneRow> rows = {Row(1, {})};
  rows[0].failed = "no step is known after 600 s";
  const TuneReport report = Conclude(rows, StepWork::kPerProcess, 1);
  EXPECT_FALSE(report.best.has_value());
  EXPECT_NE(TuneTable(report).find("No setting has a figure."), std::string::npos);
  EXPECT_TRUE(TuneJson(report)["best"].is_null());
}

}  // namespace
}  // namespace lockstep::cli::tune_result_test
