#include "operator/policy/status/last_failure.h"

#include "operator/policy/status/status_policies.h"

namespace lockstep::control {

void RecordFailure(ReconcileContext& context, const core::Failure& failure,
                   core::Generation generation, bool alone) {
  if (failure.cause == core::Cause::kNone) return;
  std::optional<core::LastFailure>& last = context.next.last_failure;
  core::JobStatus as_written;
  as_written.last_failure = core::LastFailure{.failure = failure};
  core::Shorten(as_written);
  if (last && last->failure == as_written.last_failure->failure) return;
  context.AddEvent(true, alone ? std::string(kRankRestarted) : core::ToString(failure.cause),
                   failure.message);
  last = FailureRecord(context, failure, generation);
  NoteFailureOn(context, *last);
}

}  // namespace lockstep::control
