#include "core/gang/diagnosis/standstill.h"

#include <cmath>
#include <utility>

namespace lockstep::core {
namespace {

// Over less, the moment between reading one clock and the other is too much.
constexpr Duration kLeastInterval = milliseconds(10);
// chronyd slews CLOCK_BOOTTIME by up to 8.3 % against the counter.
constexpr double kSlack = 0.2;

}  // namespace

Duration Standstill::OnReading(ClockReading now) {
  const Duration passed = now.boot - last_.boot;
  if (passed < kLeastInterval) return Duration::zero();
  const int64_t ticks = now.ticks - last_.ticks;
  last_ = now;
  if (second_clock_ == SecondClock::kTimeOfDay) {
    const Duration hidden = Duration(ticks) - passed;
    return hidden < kOrdinaryStep ? Duration::zero() : hidden;
  }
  if (ticks <= 0) return Duration::zero();  // it was set back, with a guest that was moved
  const double rate = static_cast<double>(ticks) / static_cast<double>(passed.count());
  // One that either clock's leap is in agrees with none; that of another processor, to which the
  // guest was moved, with the next.
  const double before = std::exchange(last_rate_, rate);
  if (std::abs(rate - before) <= kSlack * before) ticks_per_ns_ = before;
  if (ticks_per_ns_ == 0 || rate <= (1 + kSlack) * ticks_per_ns_) return Duration::zero();
  return Duration(static_cast<int64_t>(static_cast<double>(ticks) / ticks_per_ns_)) - passed;
}

}  // namespace lockstep::core
