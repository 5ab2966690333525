#include "operator/policy/decide.h"

#include "operator/policy/facts/rules.h"
#include "operator/policy/kube/kube_policies.h"
#include "operator/policy/policies.h"

namespace lockstep::control {

Decision Decide(const Snapshot& snapshot, Now now) {
  ReconcileContext context(snapshot, now);
  if (snapshot.deleting) return context.decision;
  const std::string& manager = snapshot.job->spec.managed_by;
  if (manager == kMultiKueue && IsFinished(snapshot.status)) {
    DeleteInTime(context);
  } else if (manager == kMultiKueue) {
    DelegateToMultiKueue(context);
  }
  if (manager != kManager) return context.decision;
  Remember(context);
  if (IsFinished(snapshot.status) && Holds(Rule::kVerdictEndsAll)) {
    CleanUp(context);
    KeepSpares(context, false);
    FinishWorkload(context);
    FinishPodGroup(context);
    return context.decision;
  }
  if (Conclude(context) || RaiseEpoch(context) || RecordLease(context) || RecordRestart(context)) {
    return context.decision;
  }

  // A gang that has told its verdict is about to leave: it is neither stopped nor mended.
  const bool decided = VerdictHeard(snapshot).has_value();
  const std::optional<Stop> stop = decided ? std::nullopt : WantedStop(context);
  if (decided) {
    context.note = "machine 0 has reported the job's verdict";
  } else if (stop) {
    if (CarryOut(context, *stop)) return context.decision;
  } else if (snapshot.status.attempts.empty()) {
    if (Assemble(context)) return context.decision;
  } else {
    if (Replace(context) || Resize(context) || TradeQuota(context)) return context.decision;
    MoveOffSickNodes(context);
    MakeMissing(context);
    DeleteStale(context);
    AskWhetherHeeded(context);
  }
  // While a gang is stopped they stay as they are.
  if (!stop || snapshot.status.attempts.empty()) LeadAddresses(context);
  KeepSpares(context, !stop);
  if (snapshot.status.attempts.empty()) LeavePodGroup(context);
  SpeakToGang(context, stop);
  Observe(context, stop);
  KeepWorkload(context, stop);
  return context.decision;
}

}  // namespace lockstep::control
