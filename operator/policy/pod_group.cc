#include <algorithm>
#include <optional>

#include "core/model/names.h"
#include "operator/policy/policies.h"

namespace lockstep::control {

std::optional<core::PodGroupStatus> PodGroupFor(const ReconcileContext& context, uint32_t epoch) {
  const core::GangScheduler gang = context.spec().scheduling.gang;
  if (gang == core::GangScheduler::kNone) return std::nullopt;
  return core::PodGroupStatus{core::PodGroupName(context.snapshot.job->metadata.name, epoch), gang};
}

// It is not watched: that it is there is asked once in each epoch that pods are made in, and a
// machine that is replaced begins one.
bool MakePodGroupFirst(ReconcileContext& context) {
  const core::JobStatus& status = context.snapshot.status;
  if (!status.pod_group || context.snapshot.notes.grouped_in == status.epoch) return true;
  const bool some_to_make = std::ranges::any_of(
      context.machines, [](const Machine& machine) { return machine.life == Life::kToCreate; });
  if (some_to_make) context.Do(MakePodGroup{*status.pod_group, status.replicas, status.epoch});
  return !some_to_make;
}

bool IsPodGroupGone(const ReconcileContext& context) {
  const std::optional<core::PodGroupStatus>& group = context.snapshot.status.pod_group;
  return !group || context.snapshot.notes.ungrouped == group->name;
}

// After its pods: a scheduler would not place one whose group is gone.
void LeavePodGroup(ReconcileContext& context) {
  const std::optional<core::PodGroupStatus>& group = context.snapshot.status.pod_group;
  if (!group || !HasLeft(context)) return;
  if (IsPodGroupGone(context)) {
    context.next.pod_group.reset();
  } else {
    context.Do(DropPodGroup{*group});
  }
}

void FinishPodGroup(ReconcileContext& context) {
  LeavePodGroup(context);
  if (context.next.pod_group != context.snapshot.status.pod_group) context.Show();
}

}  // namespace lockstep::control
