#include "core/gang/roster/lease_clock.h"

#include <gtest/gtest.h>

namespace lockstep::core {
namespace {

constexpr Duration kLength = seconds(10);

class LeaseClockTest : public testing::Test {
 protected:
  // A PING that is sent at `sent` and answered `later`, by an agent whose clock shows 1000 s more.
  bool Answer(uint32_t machine, Time sent, Duration later = milliseconds(10)) {
    const Time stamp = clock_.Stamp(sent);
    Pong pong;
    pong.ping_sent = stamp;
    pong.now = stamp + later / 2 + seconds(1000);
    return clock_.OnPong(stamp + later, machine, pong);
  }

  LeaseClock clock_{2, kLength, seconds(100)};
};

TEST_F(LeaseClockTest, TheLeaseIsThatOfTheMemberThatIsSilentForLongest) {
  Answer(0, seconds(101));
  EXPECT_FALSE(clock_.Live(seconds(101))) << "the other has answered nothing";
  EXPECT_FALSE(clock_.Grant(seconds(101), 0).present);
  Answer(1, seconds(104));
  EXPECT_TRUE(clock_.Live(seconds(109) - nanoseconds(1)));
  EXPECT_FALSE(clock_.Live(seconds(109))) << "0.8 of 10 s after the older PING was sent";

  const LeaseGrant grant = clock_.Grant(seconds(106), 1);
  EXPECT_TRUE(grant.present);
  EXPECT_EQ(grant.age, seconds(5));
  EXPECT_EQ(grant.echo, seconds(1104) + milliseconds(5)) << "by its own clock";
  EXPECT_EQ(grant.length, kLength);
}

TEST_F(LeaseClockTest, AGenerationBeginsWhileHalfOfTheLeaseIsLeft) {
  Answer(0, seconds(101));
  Answer(1, seconds(102));
  EXPECT_TRUE(clock_.MayBegin(seconds(105)));
  EXPECT_FALSE(clock_.MayBegin(seconds(105) + nanoseconds(1)));
}

TEST_F(LeaseClockTest, AnAnswerToNoPingOrAnOlderOneCountsForNothing) {
  EXPECT_TRUE(Answer(0, seconds(103)));
  Pong pong;
  pong.ping_sent = seconds(102);
  EXPECT_FALSE(clock_.OnPong(seconds(104), 0, pong)) << "older than one that was answered";
  pong.ping_sent = seconds(105);
  EXPECT_FALSE(clock_.OnPong(seconds(104), 0, pong)) << "never sent";
  EXPECT_EQ(clock_.of(0).answered_sent, seconds(103));
}

TEST_F(LeaseClockTest, NoTwoStampsAreTheSame) {
  const Time first = clock_.Stamp(seconds(101));
  EXPECT_GT(clock_.Stamp(seconds(101)), first);
}

TEST_F(LeaseClockTest, TheQuickestAnswerTellsTheOffsetOfClocksUntilItIsOld) {
  Answer(0, seconds(101), milliseconds(2));
  Answer(0, seconds(102), milliseconds(80));
  EXPECT_EQ(clock_.of(0).clock_uncertainty, milliseconds(1));
  EXPECT_EQ(clock_.of(0).clock_offset, seconds(1000));
  Answer(0, seconds(140), milliseconds(80));
  EXPECT_EQ(clock_.of(0).clock_uncertainty, milliseconds(40));
}

TEST_F(LeaseClockTest, ALowerLengthCountsForLossesOnceOldLeasesAreOut) {
  clock_.SetLength(seconds(110), seconds(4));
  EXPECT_EQ(clock_.LossLength(seconds(120) - nanoseconds(1)), kLength);
  EXPECT_EQ(clock_.LossLength(seconds(120)), seconds(4));
  clock_.SetLength(seconds(121), seconds(30));
  EXPECT_EQ(clock_.LossLength(seconds(121)), seconds(30)) << "a higher one counts at once";
}

TEST_F(LeaseClockTest, WhoWasStoppedItselfJudgesFreshAnswersOnly) {
  clock_.OnHello(seconds(101), 0);
  clock_.OnStep(seconds(104));
  EXPECT_EQ(clock_.of(0).answered_at, seconds(101));
  clock_.OnStep(seconds(130));
  EXPECT_EQ(clock_.of(0).answered_at, seconds(130));
}

TEST_F(LeaseClockTest, SilenceIsCountedFromTheAnsweredPingsSending) {
  EXPECT_EQ(clock_.SilentSince(0), seconds(100)) << "from birth";
  clock_.OnHello(seconds(101), 0);
  EXPECT_EQ(clock_.SilentSince(0), seconds(101));
  Answer(0, seconds(102));
  EXPECT_EQ(clock_.SilentSince(0), seconds(102));
  clock_.Reset(0);
  EXPECT_FALSE(clock_.of(0).has_echo);
  EXPECT_EQ(clock_.SilentSince(0), seconds(100));
}

}  // namespace
}  // namespace lockstep::core
