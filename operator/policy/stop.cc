#include <algorithm>

#include "core/exit_codes.h"
#include "operator/policy/policies.h"

namespace lockstep::control {
namespace {

using core::JobState;

constexpr Duration kWishPatience = seconds(2);  // for machine 0 to take a stop
constexpr Duration kStopSlack = seconds(15);    // beyond the grace period

// Whether the gang's ranks are stopped, so that its agents may leave: machine 0 says so, or can't.
bool MayLeave(Draft& draft, const Stop& stop, Time since) {
  if (stop.releases) return true;
  const bool machine0_runs =
      !draft.machines.empty() && draft.machines.front().life == Life::kRunning;
  if (!machine0_runs) return true;
  const core::GangStatus* status = Coordinator(draft);
  if (status == nullptr || !draft.snapshot.wish_accepted) {
    draft.WakeAt(since + kWishPatience);
    return draft.now.boot >= since + kWishPatience;
  }
  if (IsPhase(*status, core::CoordinatorPhase::kHeld)) return true;
  const Time latest = since + draft.spec().grace_period + kStopSlack;
  draft.WakeAt(latest);
  return draft.now.boot >= latest;
}

// The attempts are taken back; their pods, leftovers now, go next. Written before anything is
// deleted: whoever goes on after a crash, or after the user's change of mind, sees no lost
// machines.
void Dissolve(Draft& draft, const Stop& stop) {
  core::JobStatus& next = draft.next;
  next.attempts = {};
  next.replicas = 0;
  if (stop.reason == core::StopReason::kSuspended) next.timings = {};  // its clocks stand still
  draft.Own<&Memory::stop>().since.reset();
  if (stop.fails) {
    next.verdict = core::JobVerdict{
        .generation = {}, .exit_code = core::kExitSuccess, .cause = core::Cause::kStopRequested};
    MarkFinished(next, false, "DeadlineExceeded", stop.message, draft.now);
  } else {
    next.state = JobState::kStopping;
    next.reason = stop.message;
  }
  if (stop.fails) draft.Tell(true, "Failed", stop.message);
  if (stop.releases) draft.Tell(true, "LetGo", stop.message);
  draft.Intend();
}

}  // namespace

std::optional<Stop> WantedStop(Draft& draft) {
  for (auto* policy : {StopForSuspend, StopForDeadline, StopForScale, StopForStartTimeout}) {
    if (std::optional<Stop> stop = policy(draft)) return stop;
  }
  draft.Own<&Memory::stop>().since.reset();
  return std::nullopt;
}

bool CarryOut(Draft& draft, const Stop& stop) {
  if (draft.snapshot.status.attempts.empty() && !stop.fails) {
    ClearAway(draft);
    return false;
  }
  std::optional<Time>& since = draft.Own<&Memory::stop>().since;
  if (!since) since = draft.now.boot;
  if (!MayLeave(draft, stop, *since)) return false;
  Dissolve(draft, stop);
  return true;
}

bool ClearAway(Draft& draft) {
  bool some_left = false;
  for (const MachineObservation* seen : Leftovers(draft.snapshot)) {
    if (!seen->leave_by) {
      draft.Do(StopMachine{seen->name, seen->uid, std::nullopt});
      some_left = true;
    } else if (!seen->over()) {
      // One that should have gone long ago, its lease included, is on a node that nobody hears of:
      // its ranks are dead.
      const WallTime dead = *seen->leave_by + draft.snapshot.status.machine_lost_after;
      if (draft.now.wall >= dead) continue;
      draft.WakeAt(draft.now.Boot(dead));
      some_left = true;
    }
  }
  return !some_left;
}

}  // namespace lockstep::control
