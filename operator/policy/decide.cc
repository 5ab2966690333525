#include "operator/policy/decide.h"

#include "operator/policy/policies.h"
#include "operator/policy/rules.h"

namespace lockstep::control {

Decision Decide(const Snapshot& snapshot, Now now) {
  Draft draft(snapshot, now);
  if (snapshot.deleting || snapshot.job->spec.managed_by != kManager) return draft.decision;
  Remember(draft);
  if (IsFinished(snapshot.status) && Holds(Rule::kVerdictEndsAll)) {
    CleanUp(draft);
    return draft.decision;
  }
  if (Conclude(draft) || RecordLease(draft)) return draft.decision;

  const std::optional<Stop> stop = WantedStop(draft);
  if (stop) {
    if (CarryOut(draft, *stop)) return draft.decision;
  } else if (snapshot.status.attempts.empty()) {
    if (Assemble(draft)) return draft.decision;
  } else {
    if (Replace(draft)) return draft.decision;
    MakeMissing(draft);
    DeleteStale(draft);
  }
  SpeakToGang(draft, stop);
  Observe(draft, stop);
  return draft.decision;
}

}  // namespace lockstep::control
