#include "base/backoff.h"

#include <gtest/gtest.h>

#include <limits>

namespace lockstep {
namespace {

TEST(Backoff, APauseDoublesUpToTheLongest) {
  DoublingPause pause(milliseconds(5), milliseconds(30));
  EXPECT_EQ(pause.Take(), milliseconds(5));
  EXPECT_EQ(pause.Take(), milliseconds(10));
  EXPECT_EQ(pause.Take(), milliseconds(20));
  EXPECT_EQ(pause.Take(), milliseconds(30));
  EXPECT_EQ(pause.next(), milliseconds(30));
  pause.Reset();
  EXPECT_EQ(pause.Take(), milliseconds(5));
  pause.SetLongest();
  EXPECT_EQ(pause.Take(), milliseconds(30));
}

TEST(Backoff, NoNumberOfFailuresOverflows) {
  EXPECT_EQ(DoubledPause(seconds(1), minutes(1), -1), seconds(1));
  EXPECT_EQ(DoubledPause(seconds(1), minutes(1), 3), seconds(8));
  EXPECT_EQ(DoubledPause(seconds(1), minutes(1), std::numeric_limits<int>::max()), minutes(1));
}

}  // namespace
}  // namespace lockstep
