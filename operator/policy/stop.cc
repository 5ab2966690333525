#include <algorithm>
#include <utility>

#include "core/exit_codes.h"
#include "operator/policy/kube/kube_policies.h"
#include "operator/policy/policies.h"
#include "operator/policy/status/status_policies.h"

namespace lockstep::control {
namespace {

using core::JobState;

constexpr Duration kDesiredStatePatience = seconds(2);  // for machine 0 to take a stop

// Whether the gang's ranks are stopped, so that its agents may leave: machine 0 says so, or can't.
bool MayLeave(ReconcileContext& context, const Stop& stop, Time since) {
  if (stop.releases) return true;
  const bool machine0_runs =
      !context.machines.empty() && context.machines.front().life == Life::kRunning;
  if (!machine0_runs) return true;
  const core::GangStatus* status = Coordinator(context);
  if (status == nullptr || !context.snapshot.desired_state_accepted) {
    context.WakeAt(since + kDesiredStatePatience);
    return context.now.boot >= since + kDesiredStatePatience;
  }
  if (IsPhase(*status, core::CoordinatorPhase::kHeld)) return true;
  return context.IsDue(since + StopPatience(context));
}

// The attempts are taken back; their pods are leftovers now and are deleted next. This is written
// before any deletion, so that an operator that continues after a crash, or after a change of the
// spec, sees no lost machines.
void Dissolve(ReconcileContext& context, const Stop& stop) {
  CloseAccounts(context);
  RecordLastReport(context);
  CountRestarts(context);
  core::JobStatus& next = context.next;
  next.attempts = {};
  next.replicas = 0;
  if (stop.reason == core::StopReason::kSuspended) next.timings = {};  // its clocks stand still
  context.StateOf<&PolicyState::stop>().since.reset();
  if (stop.fails) {
    next.verdict = core::JobVerdict{
        .generation = {}, .exit_code = core::kExitDeadline, .cause = core::Cause::kStopRequested};
    context.why = "DeadlineExceeded";
    MarkFinished(next, false, context.why, stop.message, context.now);
  } else {
    next.state = JobState::kStopping;
    next.reason = stop.message;
  }
  if (const core::GangStatus* gang = Coordinator(context); gang && !gang->unwritten.empty()) {
    context.AddEvent(true, "CheckpointNotWritten", gang->unwritten);
  }
  if (stop.fails) context.AddEvent(true, "Failed", stop.message);
  if (stop.releases) context.AddEvent(true, "GangReleased", stop.message);
  if (stop.queues) context.AddEvent(false, "Requeued", stop.message);
  context.WriteFirst();
}

}  // namespace

std::optional<Stop> WantedStop(ReconcileContext& context) {
  for (auto* policy :
       {StopForSuspend, StopForQueue, StopForDeadline, StopForScale, StopForStartTimeout}) {
    if (std::optional<Stop> stop = policy(context)) return stop;
  }
  context.StateOf<&PolicyState::stop>().since.reset();
  return std::nullopt;
}

bool CarryOut(ReconcileContext& context, const Stop& stop) {
  if (context.snapshot.status.attempts.empty() && !stop.fails) {
    ClearAway(context);
    return false;
  }
  std::optional<Time>& since = context.StateOf<&PolicyState::stop>().since;
  if (!since) since = context.now.boot;
  // First, because the taken-back attempts no longer show which machines were replaced.
  if (StopReplaced(context) || !MayLeave(context, stop, *since)) return false;
  Dissolve(context, stop);
  return true;
}

bool ClearAway(ReconcileContext& context) {
  bool some_left = false;
  for (const MachineObservation* seen : Leftovers(context.snapshot)) {
    if (!seen->leave_by) {
      StopMachine stop{seen->name, seen->uid, std::nullopt};
      if (seen->stage != Stage::kRunning) stop.grace_seconds = kLeaveSeconds;  // no agent has begun
      context.AddAction(std::move(stop));
      some_left = true;
    } else if (!IsGone(context, *seen)) {
      some_left = true;
    }
  }
  return !some_left;
}

}  // namespace lockstep::control
