// The policies that Decide calls, one file each: these are for machines of any kind. kube/ has
// those of Kubernetes alone, status/ those that record and report. Each reads the context's
// snapshot and adds its actions to the context. A policy that returns bool returns true if nothing
// else may be decided before its intent is written.
#ifndef LOCKSTEP_OPERATOR_POLICY_POLICIES_H_
#define LOCKSTEP_OPERATOR_POLICY_POLICIES_H_

#include <optional>
#include <string>
#include <vector>

#include "core/gang/protocol/messages.h"
#include "operator/policy/facts/gang_state.h"
#include "operator/policy/facts/reconcile_context.h"
#include "operator/policy/facts/stop.h"
#include "operator/policy/status/refusal.h"

namespace lockstep::control {

// remember.cc: records which attempts exist and which are over, and other facts that policies need
// even if they are not called.
void Remember(ReconcileContext& context);
void RememberRelease(ReconcileContext& context);
void RememberFencing(ReconcileContext& context);

// verdict.cc: the end of the job for any reason other than a stop: a verdict of the gang, an agent
// that could not be configured, an exhausted machine budget, a spec that cannot run.
bool Conclude(ReconcileContext& context);
// Makes `status` the status of an ended job.
void MarkFinished(core::JobStatus& status, bool success, const std::string& reason,
                  const std::string& message, const Now& now);

// finish.cc: after the end: cleanPodPolicy and ttlSecondsAfterFinished.
void CleanUp(ReconcileContext& context);
void DeleteInTime(ReconcileContext& context);  // the latter

// restart.cc: machine 0 restarts the gang on request; the pods stay.
bool RecordRestart(ReconcileContext& context);
std::optional<core::DesiredState::Restart> WantedRestart(const ReconcileContext& context);
void ObserveRestart(ReconcileContext& context);

// stop.cc: stops the gang at one moment and takes back its attempts; then deletes its pods. The
// reasons come from suspend, queue, deadline, scale and placement, in that order.
std::optional<Stop> WantedStop(ReconcileContext& context);
bool CarryOut(ReconcileContext& context, const Stop& stop);
// Deletes the objects that no gang needs. True: no process of them can be alive.
bool ClearAway(ReconcileContext& context);
std::optional<Stop> StopForSuspend(ReconcileContext& context);
std::optional<Stop> StopForDeadline(ReconcileContext& context);
std::optional<Stop> StopForScale(ReconcileContext& context);
std::optional<Stop> StopForStartTimeout(ReconcileContext& context);

// pods.cc: raises the epoch for the whole gang, makes missing keys and pods, and deletes pods that
// are no longer needed.
bool Assemble(ReconcileContext& context);
void MakeMissing(ReconcileContext& context);
void DeleteStale(ReconcileContext& context);
// Grace for a pod that has nothing to save, or must not save.
inline constexpr int64_t kLeaveSeconds = 1;
// Deletes pods of replaced machines with this short grace, because their ranks must not overwrite a
// new state with an old one. The higher attempt fences them. False: all were already asked to
// leave.
bool StopReplaced(ReconcileContext& context);

// Nodes that the next attempt of this machine avoids if others fit.
std::vector<std::string> FailedNodes(const ReconcileContext& context, const Machine& machine);

// spares.cc: pods that hold a node, its GPUs and the image, ready for the replacement of a lost
// machine.
void RememberSpares(ReconcileContext& context);
// The node of the spare that makes room for this new machine; "": there is none. Absent while the
// spare is still leaving.
std::optional<std::string> PlaceOfSpare(ReconcileContext& context, const Machine& machine);
// Makes as many spares as the spec asks for; none for a gang that ends or is stopped.
void KeepSpares(ReconcileContext& context, bool wanted);
int32_t ReadySpares(const ReconcileContext& context);
// Spares that may give their node to a machine: on well nodes, and ready if `ready`.
int32_t FreePlaces(const ReconcileContext& context, bool ready);
// The scheduler's message about a spare without a node, or the server's about one that may not be
// made; "": there is none.
std::string WhyUnplaced(const ReconcileContext& context);
// Why there are fewer spares than requested; "": there are enough.
std::string WhyFewerSpares(ReconcileContext& context);

// node_health.cc: a machine on a sick node moves to another (failurePolicy.nodeHealth), at the next
// checkpoint or at once, but only if a node is there for it. Its pod is asked to leave as by a
// drain, which is charged to no budget.
void MoveOffSickNodes(ReconcileContext& context);
// Spares that hold nodes for machines that are to move.
size_t PlacesForMoves(ReconcileContext& context);
// Why the machine's last attempt was asked to leave: "node a is cordoned"; "": not by this policy.
std::string WhyMoved(const ReconcileContext& context, const Machine& machine);
// Nodes that machines of the job run on. Claims that are used on several nodes are not bound to
// one.
int32_t NodesInUse(const ReconcileContext& context);
// In status.history, before the node that a machine left.
inline constexpr const char* kMovedOffNode = " moved: node ";
// Condition OnSickNode.
void ObserveNodeHealth(ReconcileContext& context);

// replacement.cc: gives lost machines a new attempt while the budget lasts.
bool Replace(ReconcileContext& context);
// Whether either budget is exhausted.
bool IsBudgetSpent(const ReconcileContext& context);
// Whether ends of whole machines that the job caused have exhausted maxRestarts. Machine 0 charges
// and judges failures of ranks.
bool AreRestartsSpent(const ReconcileContext& context);

// silence.cc: charges the loss of a silent machine of an elastic gang. Whether the loss stays
// uncharged until the state of its node is known.
bool AwaitsWordOfNode(ReconcileContext& context, const Machine& machine);
// Charges or forgets the losses whose node state is now known. The result is written at once,
// because its evidence may soon be gone.
bool JudgeSilent(ReconcileContext& context);

// elastic.cc: the number of machines of an elastic gang.
// Whether a machine that is left out gives up its place for machine 0. Machine 0 waits until that
// node is free.
bool StepsAside(ReconcileContext& context, const Machine& machine);
// Whether enough machines have a node, so that the gang waits for the others for at most
// shrinkAfter.
bool GoesOnWithFewer(const ReconcileContext& context);
// Initializes status.elastic of a new gang.
void BeginElastic(ReconcileContext& context);
bool Resize(ReconcileContext& context);
// Condition Shrunk, and status.elastic.
void ObserveElastic(ReconcileContext& context);
// "3 of 4 machines take part (0-2): machine 3 found no node"; "": all do.
std::string ElasticReason(const ReconcileContext& context);

// gang.cc: sends machine 0 its desired state. Before machine 0 may grant longer leases, status must
// record their length, because the next machine 0 waits for them.
bool RecordLease(ReconcileContext& context);
// Machine 0 refuses a desired state with an epoch or spec below those that it has taken. If status
// went back, this raises the epoch above them.
bool RaiseEpoch(ReconcileContext& context);
void SpeakToGang(ReconcileContext& context, const std::optional<Stop>& stop);
// If a coordinator has all its members and still waits for the end of earlier ranks, no member can
// confirm that end. After it has waited for L, a pod that is gone from the API server counts as
// dead. Kubernetes removes a pod when its containers are gone, or on request (a lost node, a forced
// deletion). Otherwise a gang whose pods all vanished unnoticed would wait for ever.
bool GoneMeansDead(ReconcileContext& context);

// observe.cc: writes the observations into status.
void Observe(ReconcileContext& context, const std::optional<Stop>& stop);
// reason.cc: status.reason, for users, with what to do.
Why WhyNotRunning(ReconcileContext& context);
// The reason of a running job; no text if all is well.
Why WorthKnowing(ReconcileContext& context);
}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_POLICY_POLICIES_H_
