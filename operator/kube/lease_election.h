// LeaseElection: at most one of several operators writes, by a coordination.k8s.io/v1 Lease.
//
//   Permit permit;
//   LeaseElection election(lease_transport, {.name_space = "lockstep", .identity = pod_and_uuid},
//                          &permit, {.on_started = ..., .on_lost = ...});
//   ... before every write: if (!permit.Held()) refuse;
//   election.Stop();      // graceful: the permit is dropped, then the Lease released
//
// A permit ends `renew_deadline` after the *sending* of the last renewal that succeeded, by
// CLOCK_BOOTTIME, whether or not this process was running meanwhile; no one else takes the Lease
// before `duration`, by its own clock, from when it saw that renewal. No two clocks are compared.
// A write that is sent in time and arrives late is excluded by compare-and-swap, not by the lease.
// Its own thread calls the callbacks; use a Transport of its own, so that a burst of pods cannot
// starve it.
#ifndef LOCKSTEP_OPERATOR_KUBE_LEASE_ELECTION_H_
#define LOCKSTEP_OPERATOR_KUBE_LEASE_ELECTION_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/time.h"

namespace lockstep::kube {

class Transport;

// Any thread.
class Permit {
 public:
  bool Held() const { return BootTime() < until(); }
  Time until() const { return Time(until_.load(std::memory_order_acquire)); }

  void HoldUntil(Time until) { until_.store(until.count(), std::memory_order_release); }
  void Drop() { HoldUntil(Time::zero()); }

 private:
  std::atomic<Time::rep> until_{0};
};

struct LeaseOptions {
  std::string name_space = {};
  std::string name = "lockstep-operator";
  std::string identity = {};  // of this process alone: never the same after a restart
  Duration duration = seconds(15);
  Duration renew_deadline = seconds(10);  // an API server may take up to half of it for an answer
  Duration retry = seconds(2);            // between renewals
  Duration watch_every = milliseconds(800);  // how often one who waits looks
  Duration linger{0};  // when it is released it stays the identity's for so long
};

struct LeaseHandlers {
  std::function<void()> on_started = {};  // the permit is held
  std::function<void()> on_lost = {};     // was held and is dropped; the process should exit
  std::function<void(const Error&)> on_problem =
      {};  // the Lease cannot be read or written, and why
  std::function<void(const std::string& holder)> on_waiting = {};  // it is another's, as of now
};

class LeaseThread;

class LeaseElection {
 public:
  // Starts at once. `transport` and `permit` must outlive it. Invalid options are fatal:
  // duration > renew_deadline > 1.2 * retry.
  LeaseElection(Transport* transport, const LeaseOptions& options, Permit* permit,
                LeaseHandlers handlers);
  ~LeaseElection();  // Stop

  // Drops the permit, releases the Lease if it is held (at most 2 s), ends the thread. No on_lost.
  void Stop();
  // Begins with it: of several at once, each before the first Stop.
  void BeginStop();

 private:
  std::unique_ptr<LeaseThread> thread_;
};

}  // namespace lockstep::kube

#endif  // LOCKSTEP_OPERATOR_KUBE_LEASE_ELECTION_H_
