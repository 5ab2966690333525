#include "cli/run/local_operator.h"

#include <gtest/gtest.h>

namespace lockstep::cli::local_operator_test {
namespace {

TEST(StatusPauseTest, GrowsWithTheMachinesFromFiftyMillisecondsToASecond) {
  EXPECT_EQ(StatusPause(1), Duration::zero());
  EXPECT_EQ(StatusPause(8), Duration::zero());
  EXPECT_EQ(StatusPause(9), milliseconds(50));
  EXPECT_EQ(StatusPause(64), milliseconds(50));
  EXPECT_EQ(StatusPause(2080), milliseconds(525));
  EXPECT_EQ(StatusPause(4096), seconds(1));
  EXPECT_EQ(StatusPause(100'000), seconds(1));
}

}  // namespace
}  // namespace lockstep::cli::local_operator_test
