#include "cli/ui/series.h"

#include <gtest/gtest.h>

namespace lockstep::cli::series_test {
namespace {

SeriesPoint Point(int64_t step, std::optional<double> loss = std::nullopt) {
  SeriesPoint point;
  point.t = static_cast<double>(step) / 10;
  point.step = step;
  point.loss = loss;
  return point;
}

TEST(SeriesTest, OnlyPointsBehindAVersionAreAnswered) {
  Series series;
  series.Add(Point(1, 2.5), 7);
  series.Add(Point(2, 2.25), 8);
  EXPECT_EQ(series.Json(0),
            OrderedJson::parse(R"({"from":0,"t":[0.1,0.2],"step":[1,2],"loss":[2.5,2.25]})"));
  EXPECT_EQ(series.Json(7), OrderedJson::parse(R"({"from":1,"t":[0.2],"step":[2],"loss":[2.25]})"));
  EXPECT_TRUE(series.ChangedSince(7));
  EXPECT_FALSE(series.ChangedSince(8));
}

TEST(SeriesTest, AReportWithoutAStepIsNoPointAndARestartIsOne) {
  Series series;
  for (const int64_t step : {1, 1, 2, 1}) series.Add(Point(step), 1);
  EXPECT_EQ(series.Json(0)["step"], OrderedJson::parse("[1,2,1]"));
}

TEST(SeriesTest, AColumnThatIsNewComesWithAllItsPoints) {
  Series series;
  series.Add(Point(1), 1);
  series.Add(Point(2), 2);
  EXPECT_FALSE(series.Json(0).contains("loss"));
  series.Add(Point(3, 0.123456789), 3);
  EXPECT_EQ(series.Json(2)["from"], 0);
  EXPECT_EQ(series.Json(2)["loss"], OrderedJson::parse("[null,null,0.123457]"));
  series.Add(Point(4), 4);
  EXPECT_EQ(series.Json(3)["loss"], OrderedJson::parse("[null]"));
}

TEST(SeriesTest, ALongRunKeepsEvenlySpacedPointsAndNeverMoreThanItsBound) {
  Series series;
  for (int64_t step = 1; step <= 100'000; ++step) {
    series.Add(Point(step), static_cast<uint64_t>(step));
    ASSERT_LT(series.points().size(), Series::kMostPoints);
  }
  const auto& points = series.points();
  EXPECT_GE(points.size(), Series::kMostPoints / 2 - 1);
  EXPECT_GT(points.back().step, 99'000);
  const int64_t gap = points[1].step - points[0].step;
  for (size_t i = 1; i < points.size(); ++i) {
    ASSERT_EQ(points[i].step - points[i - 1].step, gap) << i;
  }
}

TEST(SeriesTest, AfterHalvingAllPointsAreSentAgain) {
  Series series;
  const auto most = static_cast<int64_t>(Series::kMostPoints);
  for (int64_t step = 1; step <= most; ++step) series.Add(Point(step), 10);
  series.Add(Point(most + 1), 11);
  series.Add(Point(most + 2), 12);
  EXPECT_EQ(series.Json(9)["from"], 0);
  EXPECT_EQ(series.Json(10)["from"], Series::kMostPoints / 2);
}

}  // namespace
}  // namespace lockstep::cli::series_test
