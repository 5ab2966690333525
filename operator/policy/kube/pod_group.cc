#include <algorithm>
#include <optional>

#include "core/model/names.h"
#include "operator/policy/facts/gang_state.h"
#include "operator/policy/kube/kube_policies.h"

namespace lockstep::control {
namespace {

// For the scheduler's word to be written, after the last machine's agent has started.
constexpr Duration kHeedPatience = seconds(10);
constexpr Duration kAskAgain = seconds(60);

// When the last of the machines began to run; absent while one doesn't.
std::optional<WallTime> AllRunSince(const ReconcileContext& context) {
  std::optional<WallTime> since;
  for (const Machine& machine : context.machines) {
    if (machine.seen == nullptr || !machine.seen->started) return std::nullopt;
    since = std::max(since.value_or(*machine.seen->started), *machine.seen->started);
  }
  return since;
}

}  // namespace

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
  const auto& elastic = context.spec().elastic;
  const int32_t together = elastic ? elastic->min_machines : status.replicas;
  if (some_to_make) context.AddAction(MakePodGroup{*status.pod_group, together, status.epoch});
  return !some_to_make;
}

// Kubernetes' own alone says so: whether the plugin has placed pods is nowhere to be seen.
void AskWhetherHeeded(ReconcileContext& context) {
  const std::optional<core::PodGroupStatus>& group = context.snapshot.status.pod_group;
  if (!group || group->gang != core::GangScheduler::kKubernetes) return;
  const GroupHeed& heed = context.snapshot.notes.heed;
  const bool asked = heed.group == group->name;
  const std::optional<WallTime> since = AllRunSince(context);
  if ((asked && heed.heeded) || !since) return;
  const Time due = asked ? heed.at + kAskAgain : context.now.Boot(*since + kHeedPatience);
  if (context.IsDue(due)) context.AddAction(AskOfPodGroup{*group});
}

std::string WhyNotAsAGang(const ReconcileContext& context) {
  const std::optional<core::PodGroupStatus>& group = context.snapshot.status.pod_group;
  const GroupHeed& heed = context.snapshot.notes.heed;
  if (!group || heed.group != group->name || heed.heeded) return "";
  return "its scheduler placed the machines one by one and ignored podgroup " + group->name +
         ": the feature gate GangScheduling of kube-scheduler is off";
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
    context.AddAction(DropPodGroup{*group});
  }
}

void FinishPodGroup(ReconcileContext& context) {
  LeavePodGroup(context);
  if (context.next.pod_group != context.snapshot.status.pod_group) context.WriteLast();
}

}  // namespace lockstep::control
