// The policies that Decide goes through, one file each. Each looks at the context's snapshot and
// adds to the context what it wants done; those that return bool return true when nothing else may
// be decided before their intent is written.
#ifndef LOCKSTEP_OPERATOR_POLICY_POLICIES_H_
#define LOCKSTEP_OPERATOR_POLICY_POLICIES_H_

#include <optional>
#include <string>
#include <vector>

#include "core/gang/messages.h"
#include "operator/policy/reconcile_context.h"

namespace lockstep::control {

// remember.cc: which attempts exist, and which were seen to be over; and what other policies must
// take note of even where they are not asked.
void Remember(ReconcileContext& context);
void RememberAddresses(ReconcileContext& context);
void RememberRelease(ReconcileContext& context);
void RememberFencing(ReconcileContext& context);

// verdict.cc: the end of the job, for whatever reason but a stop: a verdict of the gang, an agent
// that could not be configured, a machine budget that is spent, a spec that cannot run.
bool Conclude(ReconcileContext& context);
bool IsFinished(const core::JobStatus& status);
// `status` becomes that of a job which ended.
void MarkFinished(core::JobStatus& status, bool success, const std::string& reason,
                  const std::string& message, const Now& now);

// finish.cc: after the end: cleanPodPolicy and ttlSecondsAfterFinished.
void CleanUp(ReconcileContext& context);
void DeleteInTime(ReconcileContext& context);  // the latter

// restart.cc: the gang is restarted on request, by machine 0, with its pods as they are.
bool RecordRestart(ReconcileContext& context);
std::optional<core::DesiredState::Restart> WantedRestart(const ReconcileContext& context);
void ObserveRestart(ReconcileContext& context);

// stop.cc: the gang is stopped at one moment and its attempts are taken back; then its pods go.
// What for is judged in suspend, queue, deadline, scale and placement, in that order.
struct Stop {
  core::StopReason reason = core::StopReason::kSuspended;
  bool fails = false;     // the job ends with it
  bool queues = false;    // the job waits for its turn
  bool releases = false;  // the gang lets go of its nodes and will try again
  std::string message;
};
std::optional<Stop> WantedStop(ReconcileContext& context);
bool CarryOut(ReconcileContext& context, const Stop& stop);
// The longest that ranks take to be stopped, once they are told.
Duration StopPatience(const ReconcileContext& context);
// Deletes what no gang needs. Whether nothing of it can be alive any more.
bool ClearAway(ReconcileContext& context);
// No process of it can be alive: it was seen to be over, or should have gone long ago, its lease
// included, from a node that nobody hears of.
bool IsGone(ReconcileContext& context, const MachineObservation& seen);
// Nothing of the job runs, or will: what it held may go to others.
bool HasLeft(ReconcileContext& context);
std::optional<Stop> StopForSuspend(ReconcileContext& context);
std::optional<Stop> StopForDeadline(ReconcileContext& context);
std::optional<Stop> StopForScale(ReconcileContext& context);
std::optional<Stop> StopForStartTimeout(ReconcileContext& context);

// queue.cc: no gang before Kueue admits it, and none after Kueue takes that back; what it held is
// released when nothing of the job runs any more.
std::optional<Stop> StopForQueue(ReconcileContext& context);
// Pods are made as an admission has them, and not beside one that is not known, or not given yet;
// of a gang that runs, too, once its Workload was made anew. False: WhyNoPods says what they wait
// for.
bool MayMakePods(const Snapshot& snapshot);
std::string WhyNoPods(ReconcileContext& context);
void KeepWorkload(ReconcileContext& context, const std::optional<Stop>& stop);
// Of a job that MultiKueue runs on another cluster: that is all this one has of it. Its status is
// the other operator's.
void QueueElsewhere(ReconcileContext& context);
void FinishWorkload(ReconcileContext& context);
// Condition Admitted and status.queue.
void ObserveQueue(ReconcileContext& context);
// It has been in vain, or is due, and Kueue knows nothing of it.
bool IsGrowthMissing(const ReconcileContext& context);
// "a growth to 4 machines waits for queue lq: ..."; "" where none does.
std::string WhyNoGrowth(const ReconcileContext& context);

// quota.cc: machines that are left out give their quota back, and get another attempt when there is
// quota for them again.
bool TradeQuota(ReconcileContext& context);
// What pods of machines stand on: of those that gave theirs back, none whose pods are gone.
int64_t MachinesThatHoldQuota(ReconcileContext& context);

// pod_group.cc: what holds a gang's pods together for a scheduler (spec.scheduling.gang): named
// with the gang, made before its pods, and gone after them.
std::optional<core::PodGroupStatus> PodGroupFor(const ReconcileContext& context, uint32_t epoch);
// False: it is to be there first.
bool MakePodGroupFirst(ReconcileContext& context);
bool IsPodGroupGone(const ReconcileContext& context);
// Once all machines run: a scheduler that doesn't know it has placed them one by one.
void AskWhetherHeeded(ReconcileContext& context);
std::string WhyNotAsAGang(const ReconcileContext& context);  // "": no such word
// Where no gang is, or is to be.
void LeavePodGroup(ReconcileContext& context);
// Likewise of a job that is over.
void FinishPodGroup(ReconcileContext& context);

// pods.cc: an epoch for the whole gang; key and pods that are missing; pods that are not wanted any
// more.
bool Assemble(ReconcileContext& context);
void MakeMissing(ReconcileContext& context);
void DeleteStale(ReconcileContext& context);
// For a pod that has nothing to save, or must not.
inline constexpr int64_t kLeaveSeconds = 1;
// What still runs of a machine that was replaced is fenced by the higher attempt; it gets no longer
// than that, for its ranks must not save an old state over a new one. False: all were asked to
// leave before.
bool StopReplaced(ReconcileContext& context);
// The last try to make something was refused, and the next is not yet due.
bool WaitsAfterRefusal(ReconcileContext& context);

// addresses.cc: the job's names and its coordinator's address, and where they lead.
// False: machines cannot be made yet, for these are not there.
bool MakeAddresses(ReconcileContext& context);
void LeadAddresses(ReconcileContext& context);

// Nodes that are not for the next attempt of this machine, where others fit.
std::vector<std::string> FailedNodes(const ReconcileContext& context, const Machine& machine);

// spares.cc: pods that hold a node, its GPUs and the image for a machine that may be lost.
void RememberSpares(ReconcileContext& context);
// The node of the spare that leaves for this machine, which is to be made; "" where there is none.
// Absent while the spare has yet to go.
std::optional<std::string> PlaceOfSpare(ReconcileContext& context, const Machine& machine);
// As many as are wanted, or none: of a gang that ends, or is stopped.
void KeepSpares(ReconcileContext& context, bool wanted);
int32_t ReadySpares(const ReconcileContext& context);
// Why there are fewer than are wanted; "" when there are not.
std::string WhyFewerSpares(ReconcileContext& context);

// replacement.cc: machines that are lost get a new attempt, as long as there is a budget for it.
bool Replace(ReconcileContext& context);
// Of either budget.
bool IsBudgetSpent(const ReconcileContext& context);
// maxRestarts, by ends of whole machines that are the job's own doing. What ends ranks is charged
// and judged by machine 0.
bool AreRestartsSpent(const ReconcileContext& context);

// silence.cc: what the loss of an elastic gang's silent machine costs.
// Whether it costs nothing before more is known of its node.
bool AwaitsWordOfNode(ReconcileContext& context, const Machine& machine);
// Those of which more is known by now are charged, or forgotten: which is written at once, for what
// tells it may be gone in a moment.
bool JudgeSilent(ReconcileContext& context);

// elastic.cc: which machines take part, where spec.elastic lets some be left out.
bool TakesPart(const ReconcileContext& context, const Machine& machine);
// Who is left out waits for a node, but not in machine 0's way; and machine 0 until that node is
// free.
bool StepsAside(ReconcileContext& context, const Machine& machine);
// Whether those that have a node are enough, so that it waits for the others no longer than
// shrinkAfter.
bool GoesOnWithFewer(const ReconcileContext& context);
// Of a gang that is made.
void BeginElastic(ReconcileContext& context);
// The machine's next attempt begins; whether it had been asked to leave.
void NoteSuccessor(ReconcileContext& context, uint32_t machine, bool was_asked);
// Intended, with all else that `next` has: a new epoch, and attempts of it. What pods these
// machines had are fenced.
void BeginAttempts(ReconcileContext& context, const core::Members& machines);
bool Resize(ReconcileContext& context);
// Condition Shrunk, and status.elastic.
void ObserveElastic(ReconcileContext& context);
// "3 of 4 machines take part (0-2): machine 3 found no node"; "" where all do.
std::string ElasticReason(const ReconcileContext& context);

// gang.cc: what machine 0 is to know; and before it may grant longer leases, that it may: the next
// machine 0 will wait for them.
bool RecordLease(ReconcileContext& context);
// A desired state of an epoch or a spec below those that machine 0 has taken is refused: where
// status went back, the epoch goes above them.
bool Outrank(ReconcileContext& context);
void SpeakToGang(ReconcileContext& context, const std::optional<Stop>& stop);
// A coordinator that has all its members and still waits for the end of earlier ranks has nobody
// who could tell. Where it has waited for L, a pod that is gone from the API server is dead:
// Kubernetes removes it when its containers are, or because somebody said so (a node that is gone,
// a deletion by force). Else a gang all of whose pods vanished unseen would wait for ever.
bool GoneMeansDead(ReconcileContext& context);

// observe.cc: what is seen, as status.
void Observe(ReconcileContext& context, const std::optional<Stop>& stop);
// Whether all machines that take part are ready, as status counts them.
bool PodsAreReady(const ReconcileContext& context);
// reason.cc: status.reason, in words a user can act on.
struct Why {
  const char* word = "";  // CamelCase, of a trouble that is an event; "": none, or it has its event
  std::string text;
};
Why WhyNotRunning(ReconcileContext& context);
// Of a job that runs; no text when all is well.
Why WorthKnowing(ReconcileContext& context);
// alignment.cc: condition TopologyAligned, from what agents report and kubelets refuse; and one
// machine's binding, empty while unknown.
void ObserveAlignment(ReconcileContext& context);
std::string BindingOf(const ReconcileContext& context, const Machine& machine);
// "is bound Partial where Node was asked: ...", as its agent says; empty where it is not so.
std::string BoundOtherwise(const ReconcileContext& context, const Machine& machine);
// stall.cc: condition HangSuspected.
void ObserveStall(ReconcileContext& context);
// stragglers.cc: condition Straggler. The coordinator finds it, and where failurePolicy.stragglers
// is Replace says at the next checkpoint that its machine is to be replaced, as for a rule.
void ObserveStraggler(ReconcileContext& context);

// world.cc: condition RanksNeverMet. What was once said stays: a later agent may not have seen it.
void DoubtWorld(ReconcileContext& context, const std::string& doubt);
void ObserveWorld(ReconcileContext& context);
// preflight.cc: what machines measured before ranks ran, and condition PreflightPassed.
void ObservePreflight(ReconcileContext& context);
// Why preflight wants another machine in place of this one; "": it does not, or the job has none.
std::string SlownessOf(const ReconcileContext& context, const Machine& machine);
// prestart.cc: interpreters that wait for the next generation, and generations begun with them.
void ObservePrestart(ReconcileContext& context);
// progress.cc: what ranks report, at most twice a minute; and at the job's end what its last agent
// told, or what was heard last.
void ObserveProgress(ReconcileContext& context, const core::GangStatus& gang);
void ConcludeProgress(ReconcileContext& context,
                      const core::Termination* verdict);  // null: nobody's
// history.cc: how generations ended and the next ones came.
void RecordHistory(ReconcileContext& context, const core::GangStatus& gang);
// The last answer of machine 0's current attempt, which may have ended since; null: there is none.
const core::GangStatus* LastReport(const ReconcileContext& context);
// The generations of machine 0's current attempt: those of its last answer, and those that ended
// after it and that a termination message has. Their times are for WallOf.
std::vector<core::GangStatus::GenerationStatus> LastGenerations(const ReconcileContext& context);
// Records what is known of a gang before it is dissolved or replaced, or the job has ended.
void RecordLastReport(ReconcileContext& context);
// The job has failed with this generation, of whose end perhaps nobody told.
void RecordVerdict(ReconcileContext& context, core::Generation generation,
                   const core::Failure& failure);
// Restarts that were made, by what ended the generation before: a generation that follows another,
// and a rank that was started again alone. Counters and history are up to date.
void CountRestarts(ReconcileContext& context);
// Nobody else tells of the end of a generation whose machine 0 is lost.
void RecordLossOfMachine0(ReconcileContext& context, core::Cause cause);
// ledger.cc: what the machines' time was spent for until now; when the coordinator is lost, and
// what it knew; and when the gang is dissolved. It costs no write of its own.
void AccountTime(ReconcileContext& context);
void AccountLossOfMachine0(ReconcileContext& context, core::Cause cause);
void CloseAccounts(ReconcileContext& context);
// The coordinator's times are durations since its agent was born, which is when its container was
// started, to the second that kubelet tells.
std::optional<WallTime> WallOf(const ReconcileContext& context,
                               const std::optional<Duration>& since_birth);

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_POLICY_POLICIES_H_
