#include "core/gang/member/member.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>

#include "tests/core/gang/gang_fixture.h"

namespace lockstep::core {
namespace {

using MemberTest = GangFixture;

TEST_F(MemberTest, AMachineThatStoodStillWithItsClockEndsItsLeaseAndSaysWhy) {
  Begin(2);
  Advance(seconds(1));
  Do(1, machines_[1].member->OnStoodStill(now_, milliseconds(1500)));
  ASSERT_EQ(machines_[1].stops.size(), 1U);
  EXPECT_LE(machines_[1].stops[0].kill_at, now_);
  Advance(seconds(1));
  EXPECT_EQ(coordinator_->last_failure().cause, Cause::kLeaseExpired);
  EXPECT_THAT(
      coordinator_->last_failure().message,
      testing::HasSubstr("on machine 1: it was stopped for 1.5s without a trace in its clock"));
  EXPECT_EQ(coordinator_->counters().process_failures, 0U);
  Advance(seconds(2));
  EXPECT_EQ(coordinator_->generation().ToString(), "1-2");
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
}

TEST_F(MemberTest, StandstillsOfLessThanATenthOfALeaseCountTogetherWithinItsLength) {
  Begin(2);
  Advance(seconds(1));
  Member& member = *machines_[1].member;
  for (int i = 0; i < 3; ++i) {  // further apart than a lease is long
    Do(1, member.OnStoodStill(now_, milliseconds(800)));
    Advance(seconds(16));
  }
  EXPECT_TRUE(machines_[1].stops.empty());
  Do(1, member.OnStoodStill(now_, milliseconds(800)));
  Advance(seconds(1));
  Do(1, member.OnStoodStill(now_, milliseconds(800)));
  EXPECT_EQ(machines_[1].stops.size(), 1U);
}

TEST_F(MemberTest, WhereItsRanksStoodWhenTheyLostTheirPeersStandsInTheFailure) {
  Begin(2);
  const auto tell = [&](uint32_t machine, uint32_t rank, const std::string& place) {
    Do(machine, machines_[machine].member->OnPlace(now_, {rank, place}));
  };
  tell(0, 0, "allreduce 16");
  tell(0, 0, "allreduce 17");  // the last counts
  tell(0, 3, "barrier 1");     // another machine's
  tell(0, 1, std::string(1000, 'x'));
  EXPECT_EQ(machines_[0].member->report().whereabouts,
            (std::vector<Whereabouts>{{0, "allreduce 17"}, {1, std::string(kMaxPlace, 'x')}}));
  tell(0, 1, "allreduce 17");
  tell(1, 2, "allreduce 17");
  Kill(1, 3, SIGKILL);
  Advance(seconds(1));
  EXPECT_THAT(coordinator_->last_failure().message,
              testing::HasSubstr("; ranks 0-2 are in allreduce 17"));
  EXPECT_EQ(coordinator_->last_failure().rank, 3);
  Advance(seconds(2));
  EXPECT_EQ(coordinator_->generation().ToString(), "1-2");
  EXPECT_TRUE(machines_[0].member->report().whereabouts.empty());
}

TEST_F(MemberTest, ALeaseFromBeforeAStandstillStartsNoRank) {
  Begin(2);
  Member member(MemberConfig{.job_uid = "job", .machine = 1, .machines = 2});
  member.OnConnected(now_);
  Welcome welcome;
  welcome.machine0_attempt = 1;
  member.OnMessage(now_, welcome);
  const auto spawns = [&](uint32_t n, Time echo) {
    Start start;
    start.generation = {1, n};
    start.lease = {true, echo, Duration::zero(), seconds(15)};
    const MemberActions actions = member.OnMessage(now_, start);
    return std::ranges::any_of(
        actions, [](const MemberAction& action) { return std::holds_alternative<Spawn>(action); });
  };
  const Time before = now_;
  now_ += milliseconds(1);
  member.OnStoodStill(now_, seconds(20));
  EXPECT_FALSE(spawns(1, before));
  EXPECT_TRUE(member.report().lease_expired);
  EXPECT_TRUE(spawns(2, now_));
}

class HangTest : public GangFixture {
 protected:
  void Hang(uint32_t machine, uint32_t rank) {
    Failure hang;
    hang.rank = static_cast<int>(rank);
    hang.cause = Cause::kHang;
    hang.at = now_;
    hang.by_itself = true;
    Do(machine, machines_[machine].member->OnProcessDied(now_, coordinator_->generation(), hang));
    Settle();
  }
};

TEST_F(HangTest, IsToldWithWhereEveryRankWasAndBlamesTheOneThatIsElsewhere) {
  Begin(2);
  machines_[0].places = {"barrier (train.py:12)", "barrier (train.py:12)"};
  machines_[1].places = {"barrier (train.py:12)", "load_batch (train.py:30)"};
  Hang(0, 0);
  EXPECT_EQ(coordinator_->last_failure().message,
            "rank 3 on machine 1 made no progress for hangTimeout: ranks 0-2 are in barrier "
            "(train.py:12), rank 3 is in load_batch (train.py:30)");
  EXPECT_EQ(coordinator_->last_failure().rank, 3);
  EXPECT_EQ(coordinator_->last_failure().machine, 1);
  ASSERT_EQ(machines_[0].stops.size(), 1U);
  EXPECT_LE(machines_[0].stops[0].kill_at, now_);
}

TEST_F(HangTest, IsKilledWithoutEvidenceWhenNoneComesInTime) {
  Begin(2);
  Hang(1, 2);
  ASSERT_EQ(machines_[0].collects.size(), 1U);
  Advance(seconds(4));
  EXPECT_TRUE(machines_[0].stops.empty());
  Advance(seconds(2));
  ASSERT_EQ(machines_[0].stops.size(), 1U);
  ASSERT_EQ(machines_[1].stops.size(), 1U);
  EXPECT_EQ(coordinator_->last_failure().message,
            "rank 2 on machine 1 made no progress for hangTimeout");
  // What comes too late changes nothing.
  Do(0, machines_[0].member->OnEvidence(now_, machines_[0].collects[0].generation, {{0, "x"}}));
  EXPECT_TRUE(machines_[0].member->report().whereabouts.empty());
}

TEST_F(HangTest, TheLeaseEndsOnTimeWhileEvidenceIsAwaited) {
  policy_.machine_lost_after = seconds(2);
  Begin(2);
  Hang(0, 0);
  ASSERT_EQ(machines_[1].collects.size(), 1U);
  Cut(1);
  Advance(milliseconds(1900));
  EXPECT_EQ(machines_[1].stops.size(), 1U);
  EXPECT_TRUE(machines_[1].member->report().lease_expired);
}

// By a machine 0 that says nothing more: the lease has run out before the evidence is given up.
TEST_F(HangTest, WhatFinishedWhileItIsLookedAtIsEndedWithoutAWakeOfThePast) {
  policy_.machine_lost_after = seconds(2);
  Begin(2);
  Hang(0, 0);
  ASSERT_EQ(machines_[1].collects.size(), 1U);
  Member& member = *machines_[1].member;
  for (const uint32_t rank : {2U, 3U}) {
    Do(1, member.OnProcessFinished(now_, member.generation(), rank, true));
  }
  ASSERT_EQ(member.phase(), MemberPhase::kFinished);
  now_ += minutes(2);
  member.OnTimer(now_);
  EXPECT_GT(member.NextWake(), now_);
}

TEST_F(HangTest, WhatDiesWhileItIsLookedAtIsNotToBlame) {
  Begin(2);
  Hang(0, 0);
  Kill(1, 3, 11);
  machines_[1].places = {"barrier (train.py:12)"};
  Advance(seconds(6));
  EXPECT_EQ(coordinator_->last_failure().cause, Cause::kHang);
  EXPECT_EQ(coordinator_->last_failure().rank, 0);
}

TEST_F(HangTest, ADeathIsNotLookedAt) {
  Begin(2);
  Kill(1, 3, 9);
  EXPECT_TRUE(machines_[0].collects.empty());
  EXPECT_EQ(machines_[0].stops.size(), 1U);
}

// The lease may have run out before, as nothing lived that needed one.
TEST_F(MemberTest, WhatHadFinishedIsEndedAtADrainsEndWithoutAWakeOfThePast) {
  Begin(2);
  Member& member = *machines_[1].member;
  for (const uint32_t rank : {2U, 3U}) {
    Do(1, member.OnProcessFinished(now_, member.generation(), rank, true));
  }
  ASSERT_EQ(member.phase(), MemberPhase::kFinished);
  member.OnDisconnected(now_);
  member.OnTerminate(now_, minutes(1));
  now_ += minutes(2);
  member.OnTimer(now_);
  EXPECT_GT(member.NextWake(), now_);
}

}  // namespace
}  // namespace lockstep::core
