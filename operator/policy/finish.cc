#include "operator/policy/policies.h"

namespace lockstep::control {
namespace {

constexpr Duration kWindDown = seconds(30);  // for agents that know the verdict to leave

// All of its containers, a sidecar's too.
bool IsTerminal(const kube::PodView& pod) {
  return pod.phase == kube::PodPhase::kSucceeded || pod.phase == kube::PodPhase::kFailed;
}

bool WantsGone(const Draft& draft, const kube::PodView& pod) {
  if (pod.meta.deleted) return false;
  switch (draft.spec().clean_pod_policy) {
    case core::CleanPodPolicy::kAll:
      return true;
    case core::CleanPodPolicy::kRunning:
      return !IsTerminal(pod);
    case core::CleanPodPolicy::kNone:
      break;
  }
  return !IsOver(pod);  // an agent that never heard of the end would hold its node for ever
}

}  // namespace

void CleanUp(Draft& draft) {
  const core::JobStatus& status = draft.snapshot.status;
  std::optional<Time>& since = draft.memory().over_since;
  if (!since) since = draft.now.boot;
  const bool told = status.verdict && status.verdict->generation.exists();
  const Time leave_by = told ? *since + kWindDown : *since;
  for (const kube::PodView* pod : draft.snapshot.pods) {
    if (!WantsGone(draft, *pod)) continue;
    if (!IsTerminal(*pod) && draft.now.boot < leave_by) {
      draft.WakeAt(leave_by);
    } else {
      draft.Do(DeletePod{pod->meta.name, pod->meta.uid, std::nullopt});
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
