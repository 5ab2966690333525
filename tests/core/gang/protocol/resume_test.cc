#include "core/gang/protocol/resume.h"

#include <gtest/gtest.h>

namespace lockstep::core {
namespace {

TEST(ChooseResume, StartsFromNothingOnAnEmptyVolume) {
  EXPECT_EQ(ChooseResume({}, {}, {1, 1}), "");
}

TEST(ChooseResume, TakesTheNewestCheckpointOfTheGenerationBefore) {
  EXPECT_EQ(ChooseResume({{{1, 1}, ""}}, {{{1, 1}, 2, "1-1/2"}, {{1, 1}, 1, "1-1/1"}}, {1, 2}),
            "1-1/2");
}

TEST(ChooseResume, PassesOnWhatAGenerationWithoutCheckpointsHadResumedFrom) {
  EXPECT_EQ(ChooseResume({{{1, 1}, ""}, {{1, 2}, "1-1/2"}}, {{{1, 1}, 2, "1-1/2"}}, {1, 3}),
            "1-1/2");
}

TEST(ChooseResume, NeverReadsACheckpointThatAnOlderGenerationCompletedLate) {
  EXPECT_EQ(ChooseResume({{{1, 1}, ""}, {{2, 1}, "1-1/2"}},
                         {{{1, 1}, 2, "1-1/2"}, {{1, 1}, 3, "1-1/3"}}, {2, 2}),
            "1-1/2");
}

TEST(ChooseResume, OrdersGenerationsByAttemptBeforeNumber) {
  EXPECT_EQ(ChooseResume({{{1, 9}, ""}, {{2, 1}, "1-8/1"}}, {{{1, 9}, 1, "1-9/1"}}, {2, 2}),
            "1-8/1");
}

TEST(ChooseResume, LooksAtNoGenerationAboveItsOwn) {
  EXPECT_EQ(ChooseResume({{{1, 1}, "seed"}, {{2, 1}, ""}}, {{{2, 1}, 1, "2-1/1"}}, {1, 2}), "seed");
}

TEST(ChooseResume, IsNotMisledByItsOwnFile) {
  EXPECT_EQ(ChooseResume({{{1, 1}, ""}, {{1, 2}, "other"}}, {{{1, 1}, 1, "1-1/1"}}, {1, 2}),
            "1-1/1");
}

}  // namespace
}  // namespace lockstep::core
