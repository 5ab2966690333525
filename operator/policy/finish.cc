#include "operator/policy/policies.h"

namespace lockstep::control {
namespace {

constexpr Duration kWindDown = seconds(30);  // for agents that know the verdict to leave

bool WantsGone(const ReconcileContext& context, const MachineObservation& seen) {
  if (seen.leave_by) return false;
  switch (context.spec().clean_pod_policy) {
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

void CleanUp(ReconcileContext& context) {
  const core::JobStatus& status = context.snapshot.status;
  std::optional<Time>& since = context.StateOf<&PolicyState::finish>().since;
  if (!since) since = context.now.boot;
  const bool told = status.verdict && status.verdict->generation.exists();
  const Time leave_by = told ? *since + kWindDown : *since;
  for (const MachineObservation& seen : context.snapshot.machines) {
    if (!WantsGone(context, seen)) continue;
    if (seen.all_ended || context.IsDue(leave_by)) {
      context.AddAction(StopMachine{seen.name, seen.uid, std::nullopt});
    }
  }
  DeleteInTime(context);
}

void DeleteInTime(ReconcileContext& context) {
  const core::JobStatus& status = context.snapshot.status;
  const std::optional<int32_t>& ttl = context.spec().ttl_seconds_after_finished;
  if (!ttl || !status.timings.finished) return;
  if (context.IsDue(*status.timings.finished + seconds(*ttl))) context.AddAction(DeleteJob{});
}

}  // namespace lockstep::control
