// LeaseLoop: a LeaseElection's state machine, without threads, sockets or clocks: which request
// comes next, and what follows from its answer.
//
// A Lease seen unchanged for as long as its own duration, or released, is taken over; the compare-
// and-swap of its resourceVersion lets one contender win. A successful renewal counts from when its
// request was sent, never from its answer.
#ifndef LOCKSTEP_OPERATOR_KUBE_LEASE_LOOP_H_
#define LOCKSTEP_OPERATOR_KUBE_LEASE_LOOP_H_

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "base/wall_time.h"
#include "operator/kube/api.h"
#include "operator/kube/http/transport.h"
#include "operator/kube/lease_election.h"

namespace lockstep::kube {

// A coordination.k8s.io/v1 Lease, as far as it matters here.
struct LeaseRecord {
  std::string holder;  // empty: released
  Duration duration{};
  std::string acquired;  // RFC 3339, as it stands there
  std::string renewed;
  int64_t transitions = 0;
};

struct LeaseObject {
  LeaseRecord record;
  std::string resource_version;
};

Result<LeaseObject> ReadLease(const std::string& body);

class LeaseLoop {
 public:
  // kOver: lost or released; nothing is asked for any more.
  enum class State : uint8_t { kWaiting, kHolding, kReleasing, kOver };
  struct Step {
    bool call = false;
    Time until{};      // if not
    Request request;   // if so
    Duration timeout;  // of it
  };

  explicit LeaseLoop(LeaseOptions options) : options_(std::move(options)) {}

  // The next step. Not to be called while a call is under way.
  Step Next(Time now, WallTime wall);
  // The error to report, if there is one.
  Status OnAnswer(const Result<Response>& answer, Time now);

  // Gives the Lease up, within 2 s from now. Forgets the call under way.
  void Release(Time now);

  State state() const { return state_; }
  // Until when its holder may write; in the past when it isn't held.
  Time held_until() const { return held_until_; }
  // Who else holds it, by the record seen last; empty: nobody.
  std::string other() const {
    const std::string holder = seen_ ? seen_->record.holder : "";
    return holder == options_.identity ? "" : holder;
  }

 private:
  enum class Call : uint8_t { kRead, kCreate, kWrite };

  bool MayTake(Time now) const;
  void Plan(Time now);
  Request RequestFor(WallTime wall);
  std::string Body(WallTime wall) const;
  void OnLease(const LeaseObject& lease, Time now);
  void OnWritten(const LeaseObject& lease, Time now);
  Status OnRefused(const ApiError& error, Time now);
  Status OnAbsent(const ApiError& error, Time now);
  Status OnFailed(const ApiError& error, Time now);

  const LeaseOptions options_;
  State state_ = State::kWaiting;
  Call call_ = Call::kRead;  // the next, or the one under way
  Time next_at_{};
  Time sent_at_{};
  Time held_until_{};
  Time release_by_{};
  std::optional<LeaseObject> seen_;
  bool stale_ = false;   // the server has a newer one
  bool exists_ = false;  // it was there at the last read
  Time seen_at_{};       // when its record was first seen
};

}  // namespace lockstep::kube

#endif  // LOCKSTEP_OPERATOR_KUBE_LEASE_LOOP_H_
