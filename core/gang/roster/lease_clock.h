// LeaseClock: computes the gang's lease, and the silence of each machine, from the answers to the
// coordinator's heartbeats. Pure: time comes in with each call.
//
// The member with the longest silence limits the lease. Silence counts from the sending of the last
// PING that the member answered (lease.h).
#ifndef LOCKSTEP_CORE_GANG_ROSTER_LEASE_CLOCK_H_
#define LOCKSTEP_CORE_GANG_ROSTER_LEASE_CLOCK_H_

#include <cstdint>
#include <vector>

#include "base/time.h"
#include "core/gang/protocol/messages.h"
#include "core/terms/generation.h"
#include "core/terms/members.h"

namespace lockstep::core {

class LeaseClock {
 public:
  // The answers of one machine's present agent.
  struct Pulse {
    Time answered_sent = Time::min();  // stamp of the last PING answered
    Time answered_at = Time::min();    // when that answer came, or its HELLO
    Generation answered_generation;
    bool has_echo = false;    // it has answered at least once
    Time echo{};              // its clock then
    Duration clock_offset{};  // its clock minus this one, from the quickest recent answer
    Duration clock_uncertainty = Duration::max();
    Time clock_measured = Time::min();
  };

  // `length` is L, machineLostAfter.
  LeaseClock(uint32_t machines, Duration length, Time born);

  // The machines whose silence ends the lease. At first: all.
  void Count(const Members& members) { members_ = members; }

  // ---- what happens ----
  void OnHello(Time now, uint32_t machine);
  // False: the answer matches no PING of this clock, or is older than one that came.
  bool OnPong(Time now, uint32_t machine, const Pong& pong);
  // Another agent stands in for the machine; it has not answered yet.
  void Reset(uint32_t machine) { pulses_[machine] = Pulse(); }
  // A lower L than before counts for losses once every lease under the old L has ended.
  void SetLength(Time now, Duration length);
  // Call at each step. A coordinator that was stopped heard no answers, so it judges fresh ones
  // only.
  void OnStep(Time now);
  // All members are pinged.
  void OnPinged(Time now);

  // ---- what is sent ----
  // The stamp of a PING or START that is sent now; stamps are unique.
  Time Stamp(Time now);
  LeaseGrant Grant(Time stamp, uint32_t machine) const;
  Time ping_due() const { return ping_due_; }

  // ---- the result ----
  const Pulse& of(uint32_t machine) const { return pulses_[machine]; }
  bool Live(Time now) const;
  // Whether at least half of the lease is left: an announcement carries the first lease of its
  // generation.
  bool MayBegin(Time now) const;
  // A machine that is silent this long is lost.
  Duration LossLength(Time now) const;
  // The start of the silence of the machine's present agent: the sending of the PING that it
  // answered last. Without an answer: its HELLO, or the start of this clock.
  Time SilentSince(uint32_t machine) const;

 private:
  Time Oldest() const;

  std::vector<Pulse> pulses_;  // by machine
  Members members_;
  Time born_;
  Duration length_;        // L, as granted
  Duration old_length_{};  // a longer L under which leases may still run
  Time old_length_out_ = Time::min();
  Time last_stamp_ = Time::min();
  Time last_step_;
  Time ping_due_;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_GANG_ROSTER_LEASE_CLOCK_H_
