// Processes that outlive their generation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/gang/gang_fixture.h"

namespace lockstep::core {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Two machines of two ranks, all of which can take part in the next generation.
class KeptTest : public GangFixture {
 protected:
  void SetUp() override {
    Begin(2);
    Advance(seconds(1));
    for (uint32_t rank = 0; rank < 4; ++rank) {
      Do(rank / 2, member(rank / 2).OnRejoins(now_, coordinator_->generation(), rank, true));
    }
    Settle();
  }

  Member& member(uint32_t machine) { return *machines_[machine].member; }

  void Die(uint32_t rank, Cause cause = Cause::kProcessSignal) {
    Failure death;
    death.rank = static_cast<int>(rank);
    death.cause = cause;
    death.signal = cause == Cause::kProcessSignal ? 9 : 0;
    death.at = now_;
    death.by_itself = true;
    Do(rank / 2, member(rank / 2).OnProcessDied(now_, coordinator_->generation(), death));
    Settle();
  }

  static RankProgress Step(uint32_t rank, int64_t step) {
    RankProgress progress;
    progress.rank = rank;
    progress.step = step;
    return progress;
  }

  void Leave(uint32_t rank) {
    Do(rank / 2, member(rank / 2).OnLeft(now_, member(rank / 2).generation(), rank));
    Settle();
  }
};

TEST_F(KeptTest, TheNextGenerationBeginsWithThoseThatHaveLeftTheLast) {
  Die(3);
  EXPECT_THAT(machines_[0].stops.back().spared, ElementsAre(0, 1));
  EXPECT_THAT(machines_[1].stops.back().spared, ElementsAre(2));
  Leave(0);
  Leave(2);
  Advance(milliseconds(100));
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kStopping) << "rank 1 has not left";
  Leave(1);
  Advance(milliseconds(100));
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
  EXPECT_EQ(coordinator_->generation().ToString(), "1-2");
  EXPECT_THAT(machines_[0].spawns.back().kept, ElementsAre(0, 1));
  EXPECT_THAT(machines_[1].spawns.back().kept, ElementsAre(2));
  EXPECT_EQ(coordinator_->history().back().kept, 3U);
  EXPECT_EQ(coordinator_->counters().process_failures, 1U);
}

TEST_F(KeptTest, WhoDoesNotLeaveInTimeIsKilledAndStartedAnew) {
  Die(3);
  Leave(0);
  Leave(2);
  Advance(milliseconds(5100));
  EXPECT_THAT(machines_[0].stops.back().spared, ElementsAre(0));
  EXPECT_LE(machines_[0].stops.back().kill_at, now_);
  Advance(seconds(1));
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
  EXPECT_THAT(machines_[0].spawns.back().kept, ElementsAre(0));
}

TEST_F(KeptTest, SurvivorsDoNotWaitAfterAGenerationThatMadeAStepHoweverSoonItEnded) {
  for (uint32_t n = 1; n <= 3; ++n) {
    Do(1, member(1).OnProgress(now_, Step(2, 10 + n)));
    Settle();
    Die(3);
    for (const uint32_t rank : {0U, 1U, 2U}) Leave(rank);
    Advance(milliseconds(100));
    ASSERT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning) << n;
    ASSERT_EQ(coordinator_->history().back().kept, 3U);
    for (uint32_t rank = 0; rank < 4; ++rank) {
      Do(rank / 2, member(rank / 2).OnRejoins(now_, coordinator_->generation(), rank, true));
    }
    Settle();
  }
}

TEST_F(KeptTest, SurvivorsOfAGenerationWithoutAStepWaitAsOthersDo) {
  Die(3);
  for (const uint32_t rank : {0U, 1U, 2U}) Leave(rank);
  Advance(milliseconds(100));
  ASSERT_EQ(coordinator_->generation().ToString(), "1-2");
  Die(3);
  for (const uint32_t rank : {0U, 1U, 2U}) Leave(rank);
  Advance(milliseconds(900));
  EXPECT_EQ(coordinator_->generation().ToString(), "1-2");
  Advance(milliseconds(200));
  EXPECT_EQ(coordinator_->generation().ToString(), "1-3");
  EXPECT_EQ(coordinator_->history().back().kept, 3U);
}

TEST_F(KeptTest, AHangKeepsNobody) {
  Die(3, Cause::kHang);
  Advance(seconds(6));
  EXPECT_THAT(machines_[0].stops.back().spared, IsEmpty());
  EXPECT_THAT(machines_[0].spawns.back().kept, IsEmpty());
}

TEST_F(KeptTest, WhoLeavesCommitsNothing) {
  machines_[1].hold_death = true;
  Die(3);
  Do(0, member(0).OnCommit(now_, 7));
  ASSERT_EQ(machines_[0].commits.size(), 1U);
  EXPECT_FALSE(machines_[0].commits[0].granted);
}

TEST_F(KeptTest, ASecondDeathBeforeAnybodyHasSaidAnythingKeepsTheRest) {
  Die(3);
  for (const uint32_t rank : {0U, 1U, 2U}) Leave(rank);
  Advance(milliseconds(10));
  ASSERT_EQ(coordinator_->generation().ToString(), "1-2");
  Die(0);
  EXPECT_THAT(machines_[0].stops.back().spared, ElementsAre(1));
  EXPECT_THAT(machines_[1].stops.back().spared, ElementsAre(2));
}

TEST_F(KeptTest, OneThatDiesWhileItWaitsIsStartedAnewAndIsNoFailure) {
  machines_[1].hold_death = true;
  Die(3);
  for (const uint32_t rank : {0U, 1U, 2U}) Leave(rank);
  ASSERT_THAT(member(0).report().kept, ElementsAre(0, 1));
  Die(1);
  EXPECT_THAT(member(0).report().kept, ElementsAre(0));
  machines_[1].hold_death = false;
  Do(1, member(1).OnAllDead(now_, member(1).generation()));
  Settle();
  Advance(seconds(1));
  EXPECT_THAT(machines_[0].spawns.back().kept, ElementsAre(0));
  EXPECT_EQ(coordinator_->last_failure().rank, 3);
  EXPECT_EQ(coordinator_->counters().process_failures, 1U);
}

TEST_F(KeptTest, WhoCameFromTheLastGenerationIsNotKeptForThatAlone) {
  Die(3);
  for (const uint32_t rank : {0U, 1U, 2U}) Leave(rank);
  Advance(milliseconds(10));
  ASSERT_THAT(member(0).report().kept, ElementsAre(0, 1));
  Die(3, Cause::kHang);
  Advance(seconds(6));
  EXPECT_THAT(machines_[0].spawns.back().kept, IsEmpty());
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
}

TEST_F(KeptTest, AnEndedLeaseEndsThoseThatWait) {
  machines_[1].hold_death = true;
  Die(3);
  Leave(0);
  Leave(1);
  ASSERT_TRUE(member(0).keeping());
  machines_[0].cut = machines_[1].cut = true;
  now_ += seconds(20);
  Do(0, member(0).OnTimer(now_));
  EXPECT_FALSE(member(0).keeping());
  EXPECT_THAT(machines_[0].stops.back().spared, IsEmpty());
}

TEST_F(KeptTest, AGangThatIsHeldKeepsNobody) {
  machines_[1].hold_death = true;
  Die(3);
  Leave(0);
  Leave(1);
  DesiredState desired;
  desired.job_uid = "job";
  desired.epoch = 1;
  desired.observed_generation = 1;
  desired.stop = DesiredState::DesiredStop{StopReason::kSuspended, seconds(30)};
  machines_[1].hold_death = false;
  Do(*coordinator_->OnDesiredState(now_, desired));
  Settle();
  Do(1, member(1).OnAllDead(now_, member(1).generation()));
  Settle();
  Advance(seconds(1));
  EXPECT_THAT(machines_[0].stops.back().spared, IsEmpty());
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kHeld);
}

}  // namespace
}  // namespace lockstep::core
