#include "base/loop/wake_timer.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/base/loop_test_base.h"

namespace lockstep {
namespace {

using WakeTimerTest = LoopTest;

TEST_F(WakeTimerTest, ItWakesOnceAtTheTimeThatWasSetLast) {
  int wakes = 0;
  WakeTimer timer(loop(), [&] { ++wakes; });
  timer.WakeAt(BootTime() + hours(1));
  timer.WakeAt(BootTime());
  EXPECT_TRUE(timer.armed());
  ASSERT_TRUE(RunUntil([&] { return wakes > 0; }));
  EXPECT_FALSE(timer.armed());
  Settle();
  EXPECT_EQ(wakes, 1);
}

TEST_F(WakeTimerTest, NeverAndCancelTakeTheTimeBack) {
  int wakes = 0;
  WakeTimer timer(loop(), [&] { ++wakes; });
  timer.WakeAt(BootTime());
  timer.WakeAt(kNever);
  Settle();
  timer.WakeAt(BootTime());
  timer.Cancel();
  Settle();
  EXPECT_EQ(wakes, 0);
}

TEST_F(WakeTimerTest, ATimeThatHasPassedCanBeSetAgain) {
  int wakes = 0;
  const Time when = BootTime();
  WakeTimer timer(loop(), [&] { ++wakes; });
  timer.WakeAt(when);
  ASSERT_TRUE(RunUntil([&] { return wakes == 1; }));
  timer.WakeAt(when);
  ASSERT_TRUE(RunUntil([&] { return wakes == 2; }));
}

TEST_F(WakeTimerTest, ItIsSilentAfterItsEndAndMayEndInItsOwnCall) {
  int wakes = 0;
  {
    WakeTimer gone(loop(), [&] { ++wakes; });
    gone.WakeAt(BootTime());
  }
  std::unique_ptr<WakeTimer> own;
  own = std::make_unique<WakeTimer>(loop(), [&] {
    own.reset();
    wakes += 10;
  });
  own->WakeAt(BootTime());
  Settle();
  EXPECT_EQ(wakes, 10);
}

}  // namespace
}  // namespace lockstep
