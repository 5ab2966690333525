#include "core/terms/skipped_steps.h"

#include <gtest/gtest.h>

namespace lockstep::core {
namespace {

TEST(SkippedSteps, AddsRangesInOrderAndJoinsThoseThatTouch) {
  EXPECT_EQ(AddSkipped("", 500, 502), "500-502");
  EXPECT_EQ(AddSkipped("500-502", 7, 7), "7-7,500-502");
  EXPECT_EQ(AddSkipped("7-7,500-502", 503, 510), "7-7,500-510");
  EXPECT_EQ(AddSkipped("7-7,500-502", 1, 600), "1-600");
}

TEST(SkippedSteps, AddsNothingIfTheRangeIsEmptyOrNotAboveZero) {
  EXPECT_EQ(AddSkipped("7-7", 9, 8), "7-7");
  EXPECT_EQ(AddSkipped("7-7", 0, 8), "7-7");
}

TEST(SkippedSteps, LeavesOutWhatIsNoRange) {
  EXPECT_EQ(AddSkipped("x,5,9-8,-3-4,2-3,", 0, -1), "2-3");
}

TEST(SkippedSteps, KnowsWhichStepsAreInTheList) {
  EXPECT_TRUE(SkipsStep("7-7,500-502", 7));
  EXPECT_TRUE(SkipsStep("7-7,500-502", 502));
  EXPECT_FALSE(SkipsStep("7-7,500-502", 503));
  EXPECT_FALSE(SkipsStep("", 1));
}

}  // namespace
}  // namespace lockstep::core
