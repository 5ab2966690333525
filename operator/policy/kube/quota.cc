// The queue quota of machines that are left out, if Kueue may change the job's size
// (docs/guides/queues.md). A machine that finds no node returns its share, and its pod is deleted.
// It gets another attempt when the queue grants that share again.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "operator/policy/facts/gang_state.h"
#include "operator/policy/facts/rules.h"
#include "operator/policy/kube/kube_policies.h"

namespace lockstep::control {
namespace {

using core::ElasticStatus;
using core::Members;

bool MayGiveBack(const ReconcileContext& context) {
  const std::optional<QueueSeen>& queue = context.snapshot.queue;
  return queue && !queue->name.empty() && queue->workload && queue->workload->elastic;
}

// Left out, and its pod has found no node for as long as one is waited for.
std::vector<uint32_t> ThoseWhoGiveBack(ReconcileContext& context) {
  std::vector<uint32_t> machines;
  if (!MayGiveBack(context)) return machines;
  for (const Machine& machine : context.machines) {
    if (machine.life != Life::kPending || TakesPart(context, machine)) continue;
    const core::Elastic elastic = context.spec().elastic.value_or(core::Elastic{});
    if (context.IsDue(machine.seen->created + elastic.shrink_after)) {
      machines.push_back(machine.index);
    }
  }
  return machines;
}

// Quota that was admitted before they returned theirs does not belong to them.
std::vector<uint32_t> ThoseWhoGetMore(const ReconcileContext& context) {
  const ElasticStatus& elastic = *context.snapshot.status.elastic;
  const std::optional<QueueSeen>& queue = context.snapshot.queue;
  const bool free = !queue || queue->name.empty();
  const WorkloadSeen* workload = queue && queue->workload ? &*queue->workload : nullptr;
  std::vector<uint32_t> machines;
  for (const uint32_t machine : elastic.without_quota) {
    const uint32_t attempt = context.snapshot.status.attempts.Of(static_cast<int>(machine));
    const bool since =
        workload != nullptr && (workload->slice >= attempt || !Holds(Rule::kQuotaAskedForSince));
    if (free || (since && workload->admitted)) {
      machines.push_back(machine);
    }
  }
  const auto others = static_cast<int64_t>(context.machines.size() - elastic.without_quota.size());
  if (!free && workload != nullptr &&
      workload->count < others + static_cast<int64_t>(machines.size())) {
    machines.clear();
  }
  return machines;
}

}  // namespace

bool TradeQuota(ReconcileContext& context) {
  if (!context.snapshot.status.elastic) return false;
  Members& without = context.next.elastic->without_quota;
  std::vector<uint32_t> all(without.begin(), without.end());
  if (const Members more = Members::Of(ThoseWhoGetMore(context)); !more.empty()) {
    std::erase_if(all, [&](uint32_t machine) { return more.Contains(machine); });
    without = Members::Of(std::move(all));
    BeginAttempts(context, more);
    context.AddEvent(false, "QuotaGranted", "there is quota again for machines " + more.ToString());
    return true;
  }
  const Members fewer = Members::Of(ThoseWhoGiveBack(context));
  if (fewer.empty()) return false;
  all.insert(all.end(), fewer.begin(), fewer.end());
  without = Members::Of(std::move(all));
  context.next.elastic->since = context.now.wall;
  BeginAttempts(context, fewer);
  context.AddEvent(false, "QuotaReturned",
                   "the quota of machines " + fewer.ToString() +
                       ", which found no node, goes back to queue " + context.snapshot.queue->name);
  return true;
}

int64_t MachinesThatHoldQuota(ReconcileContext& context) {
  const core::JobStatus& status = context.snapshot.status;
  int64_t count = context.spec().num_machines;
  if (status.attempts.empty() || !status.elastic) return count;
  for (const uint32_t machine : status.elastic->without_quota) {
    const bool gone =
        std::ranges::none_of(context.snapshot.machines, [&](const MachineObservation& seen) {
          return seen.machine == static_cast<int32_t>(machine) && !IsGone(context, seen);
        });
    if (gone || !Holds(Rule::kLeftBeforeReleased)) --count;
  }
  return count;
}

}  // namespace lockstep::control
