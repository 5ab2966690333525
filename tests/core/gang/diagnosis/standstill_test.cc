#include "core/gang/diagnosis/standstill.h"

#include <gtest/gtest.h>

namespace lockstep::core {
namespace {

// A machine's clocks, moved by the test.
class StandstillTest : public testing::Test {
 protected:
  static constexpr int64_t kTicks = 3;  // of the counter in a nanosecond

  void Begin(SecondClock clock) {
    second_clock_ = clock;
    standstill_ = Standstill(clock, Reading());
    Passes(seconds(1));
    Passes(seconds(1));
  }
  Duration Look() { return standstill_.OnReading(Reading()); }
  // So much passes that CLOCK_BOOTTIME counts, and is looked at.
  Duration Passes(Duration duration) {
    boot_ += duration;
    truth_ += duration;
    return Look();
  }
  ClockReading Reading() const {
    const bool counter = second_clock_ == SecondClock::kCounter;
    return {boot_, counter ? counter_ + truth_.count() * kTicks : (truth_ + stepped_).count()};
  }

  SecondClock second_clock_ = SecondClock::kCounter;
  Time boot_ = hours(5);
  Time truth_ = hours(1000);
  Duration stepped_{};   // of the time of day
  int64_t counter_ = 0;  // what the hypervisor adds to it
  Standstill standstill_{SecondClock::kCounter, {}};
};

TEST_F(StandstillTest, AMachineThatOnlySleepsOrIsBusyDoesNotStandStill) {
  for (const SecondClock clock : {SecondClock::kCounter, SecondClock::kTimeOfDay}) {
    Begin(clock);
    for (const Duration passes : {Duration(milliseconds(10)), Duration(seconds(3)),
                                  Duration(hours(3)), Duration(microseconds(1))}) {
      EXPECT_EQ(Passes(passes), Duration::zero());
    }
  }
}

TEST_F(StandstillTest, ACounterThatRanOnShowsAPauseAtTheNextLook) {
  Begin(SecondClock::kCounter);
  truth_ += seconds(4);
  EXPECT_EQ(Passes(milliseconds(100)), seconds(4));
  EXPECT_EQ(Passes(milliseconds(100)), Duration::zero()) << "it is told of once";
}

TEST_F(StandstillTest, APauseBetweenTwoLooksThatAreTooCloseIsNotForgotten) {
  Begin(SecondClock::kCounter);
  truth_ += seconds(4);
  EXPECT_EQ(Passes(milliseconds(4)), Duration::zero());
  EXPECT_EQ(Passes(milliseconds(6)), seconds(4));
}

TEST_F(StandstillTest, WhateverTheTimeOfDayDoesACounterDecides) {
  Begin(SecondClock::kCounter);
  stepped_ += hours(24);
  EXPECT_EQ(Passes(milliseconds(100)), Duration::zero());
}

TEST_F(StandstillTest, SlewingIsNoStandstill) {
  Begin(SecondClock::kCounter);
  for (int i = 0; i < 100; ++i) {
    boot_ -= milliseconds(83);  // as fast as chronyd does it
    EXPECT_EQ(Passes(seconds(1)), Duration::zero());
  }
}

TEST_F(StandstillTest, ACounterThatWasSetBackSaysNothingAndIsBelievedAgain) {
  Begin(SecondClock::kCounter);
  counter_ -= Duration(hours(100)).count();
  EXPECT_EQ(Passes(seconds(1)), Duration::zero());
  EXPECT_EQ(Passes(seconds(1)), Duration::zero());
  truth_ += seconds(2);
  EXPECT_EQ(Passes(seconds(1)), seconds(2));
}

TEST_F(StandstillTest, ALeapInTheFirstReadingsTeachesNoWrongRate) {
  for (const Duration leap : {Duration(seconds(9)), Duration(-milliseconds(900))}) {
    standstill_ = Standstill(SecondClock::kCounter, Reading());
    truth_ += leap;
    for (int i = 0; i < 4; ++i) EXPECT_EQ(Passes(seconds(1)), Duration::zero());
    truth_ += seconds(2);
    EXPECT_EQ(Passes(seconds(1)), seconds(2));
  }
}

TEST_F(StandstillTest, ABootClockThatLeapsAheadIsNoStandstillThenOrLater) {
  Begin(SecondClock::kCounter);
  boot_ += seconds(16);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Passes(seconds(1)), Duration::zero());
}

TEST_F(StandstillTest, AFasterProcessorAfterAMoveLooksLikeAStandstillOnce) {
  Begin(SecondClock::kCounter);
  const auto pass = [&] {
    counter_ += Duration(seconds(kTicks)).count() / 2;
    return Passes(seconds(1));
  };
  EXPECT_GT(pass(), Duration::zero());
  for (int i = 0; i < 4; ++i) EXPECT_EQ(pass(), Duration::zero());
}

TEST_F(StandstillTest, WithoutACounterATimeOfDayThatIsSetRightShowsAPause) {
  Begin(SecondClock::kTimeOfDay);
  truth_ += seconds(8);  // with the guest's clocks; then the host tells the time
  EXPECT_EQ(Passes(seconds(1)), seconds(8));
  EXPECT_EQ(Passes(seconds(1)), Duration::zero());
}

TEST_F(StandstillTest, AnOrdinaryStepOfTheTimeOfDayIsNoStandstill) {
  Begin(SecondClock::kTimeOfDay);
  for (const Duration step :
       {Duration(milliseconds(1900)), Duration(-seconds(1)), Duration(-hours(1))}) {
    stepped_ += step;
    EXPECT_EQ(Passes(seconds(1)), Duration::zero());
  }
}

}  // namespace
}  // namespace lockstep::core
