// The policies of Kubernetes alone, one file each: queues, quota, PodGroups and addresses. See
// operator/policy/policies.h.
#ifndef LOCKSTEP_OPERATOR_POLICY_KUBE_KUBE_POLICIES_H_
#define LOCKSTEP_OPERATOR_POLICY_KUBE_KUBE_POLICIES_H_

#include <cstdint>
#include <optional>
#include <string>

#include "operator/policy/facts/reconcile_context.h"
#include "operator/policy/facts/stop.h"

namespace lockstep::control {

// queue.cc: makes no gang before Kueue admits it or after Kueue evicts it. Releases its quota when
// nothing of the job runs.
std::optional<Stop> StopForQueue(ReconcileContext& context);
// Whether pods may be made: the admission is known and given. This also holds for a running gang
// whose Workload was made anew. False: WhyNoPods gives the reason.
bool MayMakePods(const Snapshot& snapshot);
std::string WhyNoPods(ReconcileContext& context);
void KeepWorkload(ReconcileContext& context, const std::optional<Stop>& stop);
// For an unfinished job that MultiKueue runs on another cluster. This cluster holds only the
// TrainingJob; the other operator writes its status.
void DelegateToMultiKueue(ReconcileContext& context);
void FinishWorkload(ReconcileContext& context);
// Condition Admitted and status.queue.
void ObserveQueue(ReconcileContext& context);
// Whether the growth is due or was tried in vain, and Kueue has no request for it.
bool IsGrowthMissing(const ReconcileContext& context);
// "a growth to 4 machines waits for queue lq: ..."; "" where none does.
std::string WhyNoGrowth(const ReconcileContext& context);

// quota.cc: machines that are left out return their quota, and get another attempt when quota for
// them is free again.
bool TradeQuota(ReconcileContext& context);
// The machines whose pods hold quota: without machines that returned theirs and have no pods.
int64_t MachinesThatHoldQuota(ReconcileContext& context);

// pod_group.cc: the PodGroup that a scheduler uses for the gang (spec.scheduling.gang). It is made
// before the gang's pods and deleted after them.
std::optional<core::PodGroupStatus> PodGroupFor(const ReconcileContext& context, uint32_t epoch);
// False: the PodGroup must exist first.
bool MakePodGroupFirst(ReconcileContext& context);
bool IsPodGroupGone(const ReconcileContext& context);
// Once all machines run: whether a scheduler without PodGroups placed them one by one.
void AskWhetherHeeded(ReconcileContext& context);
std::string WhyNotAsAGang(const ReconcileContext& context);  // "": no remark
// If there is no gang, and none is planned.
void LeavePodGroup(ReconcileContext& context);
// The same for an ended job.
void FinishPodGroup(ReconcileContext& context);

// addresses.cc: the job's names and its coordinator's address, and the pods that they lead to.
// False: machines must wait, because these objects do not exist yet.
bool MakeAddresses(ReconcileContext& context);
void LeadAddresses(ReconcileContext& context);
void RememberAddresses(ReconcileContext& context);

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_POLICY_KUBE_KUBE_POLICIES_H_
