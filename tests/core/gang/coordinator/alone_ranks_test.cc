#include "core/gang/coordinator/alone_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/gang/parts.h"

namespace lockstep::core::alone_ranks_test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Answer = AloneRanks::Answer;

const Generation kNow{1, 2};

class AloneRanksTest : public testing::Test {
 protected:
  AloneRanksTest() {
    policy_.max_restarts = 2;
    alone_.Begin(kNow);
  }
  Answer Die(uint32_t rank, Cause cause = Cause::kProcessExit) {
    now_ += seconds(1);
    Failure death;
    death.rank = static_cast<int>(rank);
    death.cause = cause;
    death.exit_code = 5;
    death.at = now_;
    return alone_.OnDeath(now_, parts_.roster[rank / 2], death, began_);
  }
  // The gang goes on, as is known now.
  Answer Settle() {
    now_ += kSettle;
    alone_.AskWhetherAlive(now_, [this] { return now_; });
    return alone_.ChargeSettled(now_, [](Time stamp) { return stamp != kNever; });
  }

  Time began_ = seconds(100);
  Time now_ = seconds(200);
  FailurePolicy policy_;
  Counters counters_;
  Parts parts_{2};
  AloneRanks alone_{{.ranks = {3}, .processes = 2, .names = {}},
                    policy_,
                    parts_.roster,
                    counters_,
                    parts_.outbox};
};

TEST_F(AloneRanksTest, StartsARankAgainAndChargesItOnceTheGangIsKnownToGoOn) {
  EXPECT_EQ(Die(3), Answer::kRunOn);
  EXPECT_EQ(counters_.alone, 1U);
  EXPECT_EQ(counters_.process_failures, 0U);
  alone_.StartDue(now_);
  const auto sent = parts_.Sent<StartAgain>();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].second.died, now_);
  EXPECT_THAT(alone_.TakeFailure()->message, HasSubstr("it alone is started again"));
  EXPECT_FALSE(alone_.TakeFailure());
  EXPECT_EQ(alone_.NextWake(false), now_ + kSettle);
  EXPECT_EQ(alone_.NextWake(true), kNever);
  EXPECT_EQ(Settle(), Answer::kRunOn);
  EXPECT_EQ(counters_.process_failures, 1U);
}

TEST_F(AloneRanksTest, AnswersADeathAgainThatIsReportedAgain) {
  Die(3);
  alone_.StartDue(now_);
  parts_.outbox.Take();
  Failure same;
  same.rank = 3;
  same.cause = Cause::kProcessExit;
  same.at = now_;
  EXPECT_EQ(alone_.OnDeath(now_ + seconds(9), parts_.roster[1], same, began_), Answer::kRunOn);
  EXPECT_THAT(parts_.Sent<StartAgain>(), SizeIs(1));
  EXPECT_EQ(counters_.alone, 1U);
}

TEST_F(AloneRanksTest, IgnoresRanksOfOthersAndOfOtherMachines) {
  EXPECT_EQ(Die(2), Answer::kRunOn);
  Failure foreign;
  foreign.rank = 3;
  foreign.cause = Cause::kProcessExit;
  EXPECT_EQ(alone_.OnDeath(now_, parts_.roster[0], foreign, began_), Answer::kRunOn);
  EXPECT_EQ(Die(3, Cause::kHang), Answer::kRunOn);
  EXPECT_EQ(counters_.alone, 0U);
}

TEST_F(AloneRanksTest, EndsTheGenerationOnlyWhenTheBudgetIsKnownToBeSpent) {
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(Die(3), Answer::kRunOn) << i;
    alone_.StartDue(now_ + minutes(1));
    EXPECT_THAT(parts_.Sent<StartAgain>(), SizeIs(1)) << i;
    EXPECT_EQ(Settle(), Answer::kRunOn) << i;
  }
  EXPECT_EQ(Die(3), Answer::kRunOn);
  alone_.StartDue(now_ + hours(1));
  EXPECT_THAT(parts_.Sent<StartAgain>(), IsEmpty()) << "it is held";
  EXPECT_EQ(Settle(), Answer::kStop);
  EXPECT_TRUE(alone_.escalated(3));
  EXPECT_FALSE(alone_.escalated(2));
}

TEST_F(AloneRanksTest, ChargesNothingOfAGangThatEnded) {
  Die(3);
  alone_.DropUncharged();
  EXPECT_EQ(Settle(), Answer::kRunOn);
  EXPECT_EQ(counters_.process_failures, 0U);
  Die(3);
  alone_.ChargeAll();
  EXPECT_EQ(counters_.process_failures, 1U);
}

}  // namespace
}  // namespace lockstep::core::alone_ranks_test
