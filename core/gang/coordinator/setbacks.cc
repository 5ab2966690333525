#include "core/gang/coordinator/setbacks.h"

#include <utility>

namespace lockstep::core {

FailureDecision Setbacks::Judge(const FailurePolicy& policy, FailureContext context) {
  context.short_lives = short_lives_;
  context.previous = previous_;
  FailureDecision decision = DecideFailure(policy, context);
  last_ = context.failure;
  // The budget's end is no cause; a crash that repeats itself is.
  if (decision.cause == Cause::kEarlyCrash) last_.cause = decision.cause;
  short_lives_ = IsShortLife(context) ? short_lives_ + 1 : 0;
  previous_.reset();
  if (!context.first_step_seen) previous_ = std::move(context.failure);
  decision_ = decision.reason;
  return decision;
}

void Setbacks::Note(Failure failure, std::string decision) {
  last_ = std::move(failure);
  decision_ = std::move(decision);
}

void Setbacks::OnUnprepared(Time now, std::string decision) {
  decision_ = std::move(decision);
  WaitFor(now, BackoffAfter(++unprepared_));
}

void Setbacks::OnAnnounced() {
  if (unprepared_ > 0) decision_.clear();
  unprepared_ = 0;
}

void Setbacks::WaitFor(Time now, Duration backoff) {
  backoff_ = backoff;
  until_ = now + backoff;
}

}  // namespace lockstep::core
