// Setbacks: the last failure, the decision about it in words, and how long the next generation
// waits. Pure.
#ifndef LOCKSTEP_CORE_GANG_COORDINATOR_SETBACKS_H_
#define LOCKSTEP_CORE_GANG_COORDINATOR_SETBACKS_H_

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/time.h"
#include "core/failure/failure.h"

namespace lockstep::core {

class Setbacks {
 public:
  // Applies the policy to the root cause of a generation's end. What earlier generations add to
  // `context` (short lives, a failure before the first step) is filled in here. last() is the
  // failure afterwards.
  FailureDecision Judge(const FailurePolicy& policy, FailureContext context);
  // A failure on which no policy decides.
  void Note(Failure failure, std::string decision);
  void NoteFailure(Failure failure) { last_ = std::move(failure); }
  void NoteDecision(std::string decision) { decision_ = std::move(decision); }

  // A generation could not be prepared: the next try waits, longer each time.
  void OnUnprepared(Time now, std::string decision);
  void OnAnnounced();
  // The gang has run for failurePolicy.resetAfter.
  void ForgetShortLives() { short_lives_ = 0; }

  void WaitFor(Time now, Duration backoff);
  // Ends a wait, or bounds it by `now`.
  void EndWait(Time now) { until_ = std::min(until_, now); }

  bool Waits(Time now) const { return now < until_; }
  Time until() const { return until_; }
  Duration backoff() const { return backoff_; }
  const Failure& last() const { return last_; }
  const std::string& decision() const { return decision_; }

 private:
  Time until_ = Time::min();
  Duration backoff_{};
  int short_lives_ = 0;              // generations in a row
  int unprepared_ = 0;               // generations in a row
  std::optional<Failure> previous_;  // of the generation before, if it ended before its first step
  Failure last_;
  std::string decision_;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_GANG_COORDINATOR_SETBACKS_H_
