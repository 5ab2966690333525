// Ranks that are started again alone: rank 3, on machine 1, of two machines with two ranks each.
#include <gmock/gmock.h>

#include <csignal>

#include "tests/core/gang/gang_fixture.h"

namespace lockstep::core {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// By then it is known whether a death was its rank's own.
constexpr Duration kKnown = kSettle + milliseconds(50);

class AloneTest : public GangFixture {
 protected:
  void Begin() {
    alone_ = {2, 3};
    GangFixture::Begin(2);
    first_ = coordinator_->generation();
  }
  const std::vector<SpawnAgain>& again() const { return machines_[1].again; }
  bool RunsOn() const {
    return coordinator_->phase() == CoordinatorPhase::kRunning &&
           coordinator_->generation() == first_ && machines_[0].stops.empty() &&
           machines_[1].stops.empty();
  }
  Generation first_;
};

TEST_F(AloneTest, ADeadRankIsStartedAgainInItsGenerationAndTheOthersAreLeftAlone) {
  Begin();
  Kill(1, 3, SIGKILL);
  ASSERT_THAT(again(), SizeIs(1));
  EXPECT_EQ(again()[0].rank, 3u);
  EXPECT_EQ(again()[0].generation, first_);
  EXPECT_EQ(again()[0].lease_end, machines_[1].member->lease_end());
  EXPECT_TRUE(RunsOn());
  EXPECT_THAT(machines_[0].again, IsEmpty());
}

TEST_F(AloneTest, ItIsChargedAndNamedLikeAnyFailure) {
  Begin();
  Kill(1, 3, SIGKILL);
  Advance(kKnown);
  EXPECT_EQ(coordinator_->counters().process_failures, 1u);
  EXPECT_EQ(coordinator_->counters().alone, 1u);
  EXPECT_EQ(coordinator_->counters().generations, 1u);
  EXPECT_EQ(coordinator_->last_failure().message,
            "rank 3 on machine 1 was killed by SIGKILL; it alone is started again, restart 1 of 3 "
            "allowed");
  EXPECT_EQ(coordinator_->last_failure().machine, 1);
  EXPECT_THAT(log_, HasSubstr("runs on: rank 3 on machine 1"));
}

TEST_F(AloneTest, OneThatDiesAgainAtOnceWaits) {
  Begin();
  Kill(1, 3, SIGKILL);
  now_ += milliseconds(10);
  Kill(1, 3, SIGKILL);
  EXPECT_THAT(again(), SizeIs(1));
  EXPECT_LE(coordinator_->NextWake(), now_ + seconds(1));
  Advance(milliseconds(900));
  EXPECT_THAT(again(), SizeIs(1));
  Advance(milliseconds(200));
  EXPECT_THAT(again(), SizeIs(2));
  EXPECT_THAT(coordinator_->last_failure().message, HasSubstr("again in 1s, restart 2 of 3"));
  EXPECT_TRUE(RunsOn());
}

TEST_F(AloneTest, OneThatLivedForAMinuteStartsAtOnceAgain) {
  Begin();
  Kill(1, 3, SIGKILL);
  Advance(seconds(61), milliseconds(500));
  Kill(1, 3, SIGKILL);
  EXPECT_THAT(again(), SizeIs(2));
}

TEST_F(AloneTest, TheBudgetsEndEndsTheJobWithItsCause) {
  policy_.max_restarts = 1;
  Begin();
  Kill(1, 3, SIGKILL);
  now_ += milliseconds(10);
  Kill(1, 3, SIGKILL);
  Advance(kKnown);
  ASSERT_TRUE(coordinator_->verdict());
  EXPECT_EQ(coordinator_->verdict()->exit_code, 70u);
  EXPECT_EQ(coordinator_->verdict()->failure.rank, 3);
  EXPECT_THAT(coordinator_->verdict()->failure.message, HasSubstr("was killed by SIGKILL"));
  EXPECT_THAT(coordinator_->verdict()->reason, HasSubstr("maxRestarts is 1"));
  EXPECT_EQ(coordinator_->counters().process_failures, 2u);
  EXPECT_EQ(coordinator_->counters().alone, 1u);
}

TEST_F(AloneTest, TheBudgetIsWholeAgainOnlyAfterSoLongWithoutSuchADeath) {
  policy_.max_restarts = 1;
  policy_.reset_after = minutes(10);
  Begin();
  Advance(minutes(11), seconds(1));
  Kill(1, 3, SIGKILL);
  Advance(seconds(70), seconds(1));
  EXPECT_EQ(coordinator_->counters().application_used(), 1);
  Advance(minutes(10), seconds(1));
  EXPECT_EQ(coordinator_->counters().application_used(), 0);
  EXPECT_TRUE(RunsOn());
}

TEST_F(AloneTest, WhatARuleSaysOtherwiseOfItsExitIsTheGangs) {
  FailureRule rule;
  rule.exit_codes = {9};
  rule.action = FailureAction::kFail;
  policy_.rules = {rule};
  Begin();
  Exit(1, 3, 9);
  ASSERT_TRUE(coordinator_->verdict());
  EXPECT_THAT(coordinator_->verdict()->reason, HasSubstr("rule 0"));
  EXPECT_THAT(again(), IsEmpty());
}

TEST_F(AloneTest, AnotherRanksDeathMakesANewGeneration) {
  Begin();
  Kill(0, 1, SIGKILL);
  EXPECT_EQ(coordinator_->generation().n, first_.n + 1);
  EXPECT_EQ(coordinator_->counters().alone, 0u);
}

TEST_F(AloneTest, DeathsThatFollowedFromTheOneThatEndedTheGangAreNotCharged) {
  Begin();
  Kill(1, 3, SIGKILL);
  Advance(seconds(2));
  Kill(1, 2, SIGKILL);
  now_ += milliseconds(50);
  Kill(1, 3, SIGKILL);
  now_ += milliseconds(100);
  EXPECT_EQ(coordinator_->counters().process_failures, 1u) << "the first one's";
  Kill(0, 1, SIGKILL);  // whom they had lost
  Settle();
  EXPECT_FALSE(coordinator_->verdict());
  EXPECT_EQ(coordinator_->last_failure().rank, 1);
  Advance(seconds(1));
  EXPECT_EQ(coordinator_->counters().process_failures, 2u) << "and the gang's";
}

TEST_F(AloneTest, WhereTheBudgetHasNoRoomForADeathItIsAskedOnceTheGangGoesOn) {
  policy_.max_restarts = 1;
  Begin();
  Kill(1, 2, SIGKILL);
  Kill(1, 3, SIGKILL);
  Advance(milliseconds(100));
  EXPECT_TRUE(RunsOn());
  ASSERT_THAT(again(), SizeIs(1));
  EXPECT_EQ(again()[0].rank, 2u);
  Cut(1);
  Connect(1);  // says again that it is down
  Settle();
  EXPECT_THAT(again(), SizeIs(1));
  Kill(0, 1, SIGKILL);  // of what the others died as well
  EXPECT_FALSE(coordinator_->verdict());
  EXPECT_EQ(coordinator_->last_failure().rank, 1);
  EXPECT_EQ(coordinator_->counters().process_failures, 1u);
  EXPECT_EQ(coordinator_->generation().n, first_.n + 1);
}

TEST_F(AloneTest, AHigherBudgetThatComesInTimeLetsARankThatWaitsForItStart) {
  policy_.max_restarts = 0;
  Begin();
  Kill(1, 3, SIGKILL);
  DesiredState desired;
  desired.job_uid = "job";
  desired.policy = policy_;
  desired.policy->max_restarts = 1;
  Desire(desired);
  Advance(kKnown);
  EXPECT_TRUE(RunsOn());
  EXPECT_THAT(again(), SizeIs(1));
  EXPECT_EQ(coordinator_->counters().process_failures, 1u);
}

TEST_F(AloneTest, ADeathIsNotChargedWhileAMachineThatMayBeLostIsSilent) {
  Begin();
  machines_[0].cut = true;
  Kill(1, 3, SIGKILL);
  EXPECT_THAT(again(), SizeIs(1)) << "it starts all the same";
  Advance(seconds(5));
  EXPECT_EQ(coordinator_->counters().process_failures, 0u);
  machines_[0].cut = false;
  Advance(seconds(5));
  EXPECT_EQ(coordinator_->counters().process_failures, 1u);
  EXPECT_TRUE(RunsOn());
}

TEST_F(AloneTest, AJobThatEndsWellBeforeThatIsKnownHasItCharged) {
  deciders_ = {0};
  Begin();
  Kill(1, 3, SIGKILL);
  Exit(0, 0, 0);
  ASSERT_TRUE(coordinator_->verdict());
  EXPECT_EQ(coordinator_->verdict()->exit_code, 0u);
  EXPECT_EQ(coordinator_->counters().process_failures, 1u);
}

TEST_F(AloneTest, ItIsChargedBeforeTheOthersAreStoppedAtTheJobsEnd) {
  deciders_ = {0};
  Begin();
  machines_[1].hold_death = true;
  Kill(1, 3, SIGKILL);
  Exit(0, 0, 0);
  ASSERT_EQ(coordinator_->phase(), CoordinatorPhase::kStopping);
  EXPECT_EQ(coordinator_->counters().process_failures, 1u) << "who asks now hears of it";
}

TEST_F(AloneTest, WhoIsAloneIsMachine0sToSay) {
  gangs_ = true;
  Begin();
  Kill(1, 3, SIGKILL);
  EXPECT_THAT(again(), IsEmpty());
  EXPECT_EQ(coordinator_->counters().process_failures, 0u);
}

TEST_F(AloneTest, OneThatCouldNotBeStartedIsTheGangs) {
  Begin();
  Kill(1, 3, 0, Cause::kCommandNotFound);
  ASSERT_TRUE(coordinator_->verdict());
  EXPECT_EQ(coordinator_->verdict()->failure.rank, 3);
}

TEST_F(AloneTest, ItsDeathWhileTheOthersAreStoppedIsNobodysCause) {
  Begin();
  machines_[0].hold_death = machines_[1].hold_death = true;
  Kill(0, 0, SIGSEGV);
  Failure death;
  death.rank = 3;
  death.cause = Cause::kProcessSignal;
  death.signal = SIGKILL;
  death.at = now_ - seconds(1);
  death.by_itself = true;
  Do(1, machines_[1].member->OnProcessDied(now_, first_, death));
  for (uint32_t i : {0u, 1u}) Do(i, machines_[i].member->OnAllDead(now_, first_));
  Settle();
  EXPECT_EQ(coordinator_->last_failure().rank, 0);
  EXPECT_THAT(again(), IsEmpty());
}

TEST_F(AloneTest, AnAnswerThatWasLostWithAConnectionIsGivenAgain) {
  Begin();
  machines_[1].cut = true;  // both ways
  Kill(1, 3, SIGKILL);
  EXPECT_THAT(again(), IsEmpty());
  Connect(1);
  Settle();
  EXPECT_THAT(again(), SizeIs(1));
  // Once more the report of a time at which it was down.
  Cut(1);
  Connect(1);
  Settle();
  EXPECT_THAT(again(), SizeIs(1));
  Advance(kKnown);
  EXPECT_EQ(coordinator_->counters().process_failures, 1u);
  EXPECT_TRUE(RunsOn());
}

TEST_F(AloneTest, WhatIsToldTwiceIsDoneOnce) {
  Begin();
  const Time died = now_;
  Kill(1, 3, SIGKILL);
  Do(1, machines_[1].member->OnMessage(now_, StartAgain{first_, 3, died}));
  EXPECT_THAT(again(), SizeIs(1));
  Do(1, machines_[1].member->OnMessage(now_, StartAgain{{1, 9}, 3, died}));
  EXPECT_THAT(again(), SizeIs(1));
}

TEST_F(AloneTest, NoneIsStartedInAGenerationThatStops) {
  Begin();
  machines_[1].hold_death = true;
  Kill(1, 3, SIGKILL);
  now_ += milliseconds(10);
  Kill(1, 3, SIGKILL);  // waits for a second
  Kill(0, 1, SIGKILL);
  Advance(seconds(3));
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kStopping);
  EXPECT_THAT(again(), SizeIs(1));
}

TEST_F(AloneTest, OneThatExitedWithZeroIsDone) {
  Begin();
  Exit(1, 3, 0);
  EXPECT_THAT(again(), IsEmpty());
  Exit(0, 0, 0);
  Exit(0, 1, 0);
  Exit(1, 2, 0);
  ASSERT_TRUE(coordinator_->verdict());
  EXPECT_EQ(coordinator_->verdict()->exit_code, 0u);
}

TEST_F(AloneTest, TheEndOfThoseThatDecideIsNotHeldUpByOneThatWaits) {
  deciders_ = {0};
  Begin();
  Kill(1, 3, SIGKILL);
  now_ += milliseconds(10);
  Kill(1, 3, SIGKILL);
  Exit(0, 0, 0);
  ASSERT_TRUE(coordinator_->verdict());
  EXPECT_EQ(coordinator_->verdict()->exit_code, 0u);
  EXPECT_THAT(again(), SizeIs(1));
}

TEST_F(AloneTest, MoreAtOnceOnAMachineThanAReportHoldsAreTheGangs) {
  for (uint32_t rank = 0; rank < 20; ++rank) alone_.push_back(rank);
  policy_.max_restarts = 100;
  GangFixture::Begin(1, 20);
  first_ = coordinator_->generation();
  machines_[0].cut = true;
  for (uint32_t rank = 0; rank < kMaxDownInReport + 1; ++rank) Kill(0, rank, SIGKILL);
  Connect(0);
  Settle();
  EXPECT_NE(coordinator_->generation(), first_);
}

}  // namespace
}  // namespace lockstep::core
