// WakeTimer: calls its owner at the one time that was set last, and not after it is gone.
//
//   WakeTimer timer(loop, [this] { Do(member_.OnTimer(BootTime())); });
//   timer.WakeAt(member_.NextWake());      // after every event: the same time again costs nothing
#ifndef LOCKSTEP_BASE_LOOP_WAKE_TIMER_H_
#define LOCKSTEP_BASE_LOOP_WAKE_TIMER_H_

#include <utility>

#include "base/loop/event_loop.h"
#include "base/time.h"

namespace lockstep {

class WakeTimer {
 public:
  // `on_wake` may set the timer anew, or destroy it.
  WakeTimer(EventLoop* loop, EventLoop::Callback on_wake)
      : loop_(loop), on_wake_(std::move(on_wake)) {}
  ~WakeTimer() { Cancel(); }
  WakeTimer(const WakeTimer&) = delete;
  WakeTimer& operator=(const WakeTimer&) = delete;

  // In place of the time set before; kNever: not at all.
  void WakeAt(Time when) {
    if (when == when_) return;
    Cancel();
    if (when == kNever) return;
    when_ = when;
    timer_ = loop_->StartTimer(when, [this] {
      when_ = kNever;
      const EventLoop::Callback on_wake = on_wake_;
      on_wake();
    });
  }
  void Cancel() {
    if (armed()) loop_->CancelTimer(timer_);
    when_ = kNever;
  }
  bool armed() const { return when_ != kNever; }

 private:
  EventLoop* loop_;
  EventLoop::Callback on_wake_;
  Time when_ = kNever;
  TimerId timer_ = 0;
};

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_LOOP_WAKE_TIMER_H_
