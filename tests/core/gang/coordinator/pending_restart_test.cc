#include "core/gang/coordinator/pending_restart.h"

#include <gtest/gtest.h>

namespace lockstep::core::pending_restart_test {
namespace {

DesiredState::Restart Asked(const std::string& id, uint32_t attempt = 4) {
  return {.id = id, .attempt = attempt, .at_commit = true, .words = "alice"};
}

TEST(PendingRestartTest, IsCarriedOutOnceByTheAttemptThatItNames) {
  PendingRestart pending;
  EXPECT_FALSE(pending.Take(Asked("a", 3), 4)) << "an earlier machine 0 carries it out";
  EXPECT_EQ(pending.asked(), nullptr);
  EXPECT_TRUE(pending.Take(Asked("a"), 4));
  EXPECT_EQ(pending.asked()->words, "alice");
  EXPECT_TRUE(pending.Take(Asked("a"), 4)) << "the operator repeats it";
  EXPECT_TRUE(pending.Finish());
  EXPECT_EQ(pending.done(), "a");
  EXPECT_FALSE(pending.Take(Asked("a"), 4)) << "it is done";
  EXPECT_TRUE(pending.Take(Asked("b"), 4));
  EXPECT_EQ(pending.done(), "a");
}

TEST(PendingRestartTest, WaitsUntilTheFirstGrantedCommitIsInPlace) {
  PendingRestart pending;
  pending.OnCommitGranted(seconds(1));
  EXPECT_EQ(pending.due(), kNever) << "nobody asked";
  pending.Take(Asked("a"), 4);
  pending.OnCommitGranted(seconds(10));
  pending.OnCommitGranted(seconds(20));
  EXPECT_EQ(pending.due(), seconds(11));
  pending.Finish();
  EXPECT_EQ(pending.due(), kNever);
}

TEST(PendingRestartTest, IsDroppedIfTheOperatorWithdrawsIt) {
  PendingRestart pending;
  pending.Take(Asked("a"), 4);
  pending.OnCommitGranted(seconds(10));
  EXPECT_FALSE(pending.Take(std::nullopt, 4));
  EXPECT_EQ(pending.due(), kNever);
  EXPECT_FALSE(pending.Finish());
  EXPECT_EQ(pending.done(), "") << "no generation was stopped for it";
}

}  // namespace
}  // namespace lockstep::core::pending_restart_test
