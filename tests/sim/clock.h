// Clock: what one machine takes for the time. It has an offset and a rate within 5 % of the truth:
// CLOCK_BOOTTIME goes on while a process is stopped. What a hypervisor can do to it is Shift().
#ifndef LOCKSTEP_TESTS_SIM_CLOCK_H_
#define LOCKSTEP_TESTS_SIM_CLOCK_H_

#include <cstdint>

#include "base/time.h"

namespace lockstep::sim {

class Clock {
 public:
  // `rate` in local microseconds per true second: 950'000 to 1'050'000.
  Clock(Duration offset, int64_t rate) : offset_(offset), rate_(rate) {}

  Time Local(Time truth) const {
    return offset_ +
           Duration(truth.count() / kUnit * rate_ + truth.count() % kUnit * rate_ / kUnit);
  }

  // It shows so much more from now on; less after it has stood still.
  void Shift(Duration by) { offset_ += by; }

  // The first true moment at which the clock shows `local` or more; kNever stays kNever.
  Time True(Time local) const {
    if (local == kNever) return kNever;
    if (local <= offset_) return Time::zero();
    int64_t passed = (local - offset_).count();
    int64_t guess = passed / rate_ * kUnit + passed % rate_ * kUnit / rate_;
    while (Local(Time(guess)) < local) ++guess;
    return Time(guess);
  }

 private:
  static constexpr int64_t kUnit = 1'000'000;
  Duration offset_;
  int64_t rate_;
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_TESTS_SIM_CLOCK_H_
