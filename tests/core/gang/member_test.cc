#include "core/gang/member.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

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
  EXPECT_THAT(coordinator_->last_failure().message,
              testing::HasSubstr("on machine 1: it stood still for 1.5s without its clock"));
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

}  // namespace
}  // namespace lockstep::core
