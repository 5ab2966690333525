#include "core/gang/roster/lease_clock.h"

#include <algorithm>

#include "core/gang/protocol/lease.h"
#include "core/gang/protocol/rules.h"

namespace lockstep::core {
namespace {

// A clock offset older than this yields to any newer one: clocks drift apart by up to 5 %.
constexpr Duration kClockSampleLife = seconds(30);

}  // namespace

LeaseClock::LeaseClock(uint32_t machines, Duration length, Time born)
    : pulses_(machines),
      members_(Members::All(machines)),
      born_(born),
      length_(length),
      last_step_(born),
      ping_due_(born) {}

void LeaseClock::OnHello(Time now, uint32_t machine) {
  Pulse& pulse = pulses_[machine];
  pulse.answered_at = std::max(pulse.answered_at, now);
}

bool LeaseClock::OnPong(Time now, uint32_t machine, const Pong& pong) {
  Pulse& pulse = pulses_[machine];
  if (pong.ping_sent > last_stamp_ || pong.ping_sent < pulse.answered_sent) return false;
  pulse.answered_sent = pong.ping_sent;
  pulse.answered_at = now;
  pulse.answered_generation = pong.generation;
  pulse.has_echo = true;
  pulse.echo = pong.now;
  const Duration uncertainty = (now - pong.ping_sent) / 2;
  if (uncertainty <= pulse.clock_uncertainty || now - pulse.clock_measured > kClockSampleLife) {
    pulse.clock_uncertainty = uncertainty;
    pulse.clock_offset = pong.now - (pong.ping_sent + uncertainty);
    pulse.clock_measured = now;
  }
  return true;
}

void LeaseClock::SetLength(Time now, Duration length) {
  if (length < length_) {
    old_length_ = std::max(LossLength(now), length_);
    old_length_out_ = now + old_length_;
  }
  length_ = length;
}

void LeaseClock::OnStep(Time now) {
  if (now - last_step_ > length_ / 2) {
    for (Pulse& pulse : pulses_) pulse.answered_at = std::max(pulse.answered_at, now);
  }
  last_step_ = now;
}

void LeaseClock::OnPinged(Time now) { ping_due_ = now + PingInterval(length_); }

Time LeaseClock::Stamp(Time now) {
  last_stamp_ = std::max(now, last_stamp_ + nanoseconds(1));
  return last_stamp_;
}

LeaseGrant LeaseClock::Grant(Time stamp, uint32_t machine) const {
  const Pulse& pulse = pulses_[machine];
  Time oldest = Holds(Rule::kLeaseFromOldestAnswer) ? Oldest() : pulse.answered_sent;
  if (!pulse.has_echo || oldest == Time::min()) return {};
  if (!Holds(Rule::kLeaseFromSending)) {
    oldest = kNever;
    for (uint32_t member : members_) oldest = std::min(oldest, pulses_[member].answered_at);
  }
  return {true, pulse.echo, stamp - oldest, length_};
}

bool LeaseClock::Live(Time now) const {
  const Time oldest = Oldest();
  return oldest != Time::min() && now < oldest + LeaseShare(length_);
}

bool LeaseClock::MayBegin(Time now) const { return now - Oldest() <= LeaseShare(length_) / 2; }

Duration LeaseClock::LossLength(Time now) const {
  const bool old_runs = now < old_length_out_ && Holds(Rule::kLowerLWaits);
  return old_runs ? std::max(old_length_, length_) : length_;
}

Time LeaseClock::SilentSince(uint32_t machine) const {
  const Pulse& pulse = pulses_[machine];
  if (pulse.answered_sent != Time::min()) return pulse.answered_sent;
  return std::max(born_, pulse.answered_at);
}

Time LeaseClock::Oldest() const {
  Time oldest = kNever;
  for (uint32_t member : members_) oldest = std::min(oldest, pulses_[member].answered_sent);
  return oldest;
}

}  // namespace lockstep::core
