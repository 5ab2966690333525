// LoopTest: an event loop that runs until what a test waits for is so. Nothing is timed: the far
// deadline only turns a hang into a failure.
#ifndef LOCKSTEP_TESTS_BASE_LOOP_TEST_BASE_H_
#define LOCKSTEP_TESTS_BASE_LOOP_TEST_BASE_H_

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>

#include "base/loop/event_loop.h"
#include "base/time.h"

namespace lockstep {

class LoopTest : public ::testing::Test {
 protected:
  LoopTest() : loop_(std::move(*EventLoop::Create())) {}

  EventLoop* loop() { return loop_.get(); }

  // False when it did not come to be so in a minute.
  bool RunUntil(const std::function<bool()>& is_so) {
    bool expired = false;
    const TimerId timer = loop_->StartTimer(BootTime() + minutes(1), [&] { expired = true; });
    while (!is_so() && !expired) loop_->RunOnce();
    loop_->CancelTimer(timer);
    return !expired;
  }

  // Lets everything happen that is due already.
  void Settle() {
    bool settled = false;
    loop_->StartTimer(BootTime(), [&] { settled = true; });
    RunUntil([&] { return settled; });
  }

 private:
  std::unique_ptr<EventLoop> loop_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_BASE_LOOP_TEST_BASE_H_
