#include "operator/policy/policies.h"

namespace lockstep::control {
namespace {

constexpr Duration kWindDown = seconds(30);  // for agents that know the verdict to leave

bool WantsGone(const Draft& draft, const MachineObservation& seen) {
  if (seen.leave_by) return false;
  switch (draft.spec().clean_pod_policy) {
    case core::CleanPodPolicy::kAll:
      return true;
    case core::CleanPodPolicy::kRunning:
      return !seen.all_ended;
    case core::CleanPodPolicy::kNone:
      break;
  }
  return !seen.over();  // an agent that never heard of the end would hold its node for ever
}

}  // namespace

void CleanUp(Draft& draft) {
  const core::JobStatus& status = draft.snapshot.status;
  std::optional<Time>& since = draft.Own<&Memory::finish>().since;
  if (!since) since = draft.now.boot;
  const bool told = status.verdict && status.verdict->generation.exists();
  const Time leave_by = told ? *since + kWindDown : *since;
  for (const MachineObservation& seen : draft.snapshot.machines) {
    if (!WantsGone(draft, seen)) continue;
    if (!seen.all_ended && draft.now.boot < leave_by) {
      draft.WakeAt(leave_by);
    } else {
      draft.Do(StopMachine{seen.name, seen.uid, std::nullopt});
    }
  }
  const std::optional<int32_t>& ttl = draft.spec().ttl_seconds_after_finished;
  if (!ttl || !status.timings.finished) return;
  const WallTime due = *status.timings.finished + seconds(*ttl);
  if (draft.now.wall >= due) {
    draft.Do(DeleteJob{});
  } else {
    draft.WakeAt(draft.now.Boot(due));
  }
}

}  // namespace lockstep::control
