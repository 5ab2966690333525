// LeaseClock: the coordinator's heartbeats and what their answers are worth: the gang's lease, and
// how long each machine has been silent. Pure: time comes in with each call.
//
// The lease is bounded by the member that has been silent for longest, counted from when the PING
// was sent that it answered last (lease.h).
#ifndef LOCKSTEP_CORE_GANG_LEASE_CLOCK_H_
#define LOCKSTEP_CORE_GANG_LEASE_CLOCK_H_

#include <cstdint>
#include <vector>

#include "base/time.h"
#include "core/gang/messages.h"
#include "core/terms/generation.h"
#include "core/terms/members.h"

namespace lockstep::core {

class LeaseClock {
 public:
  // What one machine's present agent has answered.
  struct Pulse {
    Time answered_sent = Time::min();  // stamp of the last PING answered
    Time answered_at = Time::min();    // when that answer came, or its HELLO
    Generation answered_generation;
    bool has_echo = false;    // it has answered at all
    Time echo{};              // its clock then
    Duration clock_offset{};  // its clock less ours, from the quickest recent answer
    Duration clock_uncertainty = Duration::max();
    Time clock_measured = Time::min();
  };

  // `length` is L, machineLostAfter.
  LeaseClock(uint32_t machines, Duration length, Time born);

  // Whose silence ends the lease: all machines, at first.
  void Count(const Members& members) { members_ = members; }

  // ---- what happens ----
  void OnHello(Time now, uint32_t machine);
  // False: an answer to no PING of ours, or older than one that came.
  bool OnPong(Time now, uint32_t machine, const Pong& pong);
  // Another agent stands in for the machine: it has answered nothing.
  void Reset(uint32_t machine) { pulses_[machine] = Pulse(); }
  // A lower L than before counts for losses once every lease under the old one is out.
  void SetLength(Time now, Duration length);
  // Called at each step: whoever was stopped itself heard nobody, and judges fresh answers only.
  void OnStep(Time now);
  // All members are pinged.
  void OnPinged(Time now);

  // ---- what is sent ----
  // Of a PING or a START that is sent now; no two are the same.
  Time Stamp(Time now);
  LeaseGrant Grant(Time stamp, uint32_t machine) const;
  Time ping_due() const { return ping_due_; }

  // ---- what it is worth ----
  const Pulse& of(uint32_t machine) const { return pulses_[machine]; }
  bool Live(Time now) const;
  // Half of it at least is left: an announcement carries the first lease of its generation.
  bool MayBegin(Time now) const;
  // A machine that is silent for so long is lost.
  Duration LossLength(Time now) const;
  // Since when the machine's present agent may be silent: the sending of the PING that it answered
  // last; without an answer its HELLO, or our birth.
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

#endif  // LOCKSTEP_CORE_GANG_LEASE_CLOCK_H_
