// The policies that record what happened to the gang and report it in status, one file each. See
// operator/policy/policies.h.
#ifndef LOCKSTEP_OPERATOR_POLICY_STATUS_STATUS_POLICIES_H_
#define LOCKSTEP_OPERATOR_POLICY_STATUS_STATUS_POLICIES_H_

#include <optional>
#include <string>
#include <vector>

#include "operator/policy/facts/reconcile_context.h"

namespace lockstep::control {

// alignment.cc: condition TopologyAligned, from the reports of agents and the refusals of kubelets;
// and one machine's binding, empty while unknown.
void ObserveAlignment(ReconcileContext& context);
std::string BindingOf(const ReconcileContext& context, const Machine& machine);
// "is bound Partial where Node was asked: ..." from its agent; empty: the binding is as requested.
std::string BoundOtherwise(const ReconcileContext& context, const Machine& machine);
// stall.cc: condition HangSuspected.
void ObserveStall(ReconcileContext& context);
// metrics.cc: condition MetricBroken.
void ObserveMetrics(ReconcileContext& context);
// stragglers.cc: condition Straggler. The coordinator finds the straggler. If
// failurePolicy.stragglers is Replace, it asks for the machine's replacement at the next
// checkpoint, as for a rule.
void ObserveStraggler(ReconcileContext& context);

// suspects.cc: status.suspectNodes.
inline constexpr const char* kLostThere = "Lost";            // a machine was lost
inline constexpr const char* kFailedThere = "Failed";        // ranks failed, again and again
inline constexpr const char* kStragglerThere = "Straggler";  // the others waited for it
inline constexpr const char* kSlowThere = "Slow";            // preflight found it slow
void NoteSuspect(ReconcileContext& context, const std::string& node, const char* evidence,
                 const std::string& message);
// A failure of ranks, which is evidence from the second on that node.
void NoteFailureOn(ReconcileContext& context, const core::LastFailure& last);

// world.cc: condition RanksNeverMet. A warning stays once it was given, because a later agent may
// not have seen its cause.
void DoubtWorld(ReconcileContext& context, const std::string& doubt);
void ObserveWorld(ReconcileContext& context);
// preflight.cc: what machines measured before ranks ran, and condition PreflightPassed.
void ObservePreflight(ReconcileContext& context);
// Why preflight asks to replace this machine; "": it does not, or the job has no preflight.
std::string SlownessOf(const ReconcileContext& context, const Machine& machine);
// prestart.cc: the parked interpreters, and the generations that started from them.
void ObservePrestart(ReconcileContext& context);
// progress.cc: the progress of the ranks, at most twice a minute; at the job's end the last report.
void ObserveProgress(ReconcileContext& context, const core::GangStatus& gang);
void ConcludeProgress(ReconcileContext& context,
                      const core::Termination* verdict);  // null: no verdict
// history.cc: how generations ended and the next ones came.
// What gangs of jobs with sync report about their code, and what machine 0 must know of it.
void ObserveCode(ReconcileContext& context);
std::optional<core::DesiredState::Code> RecordedCode(const ReconcileContext& context);
void RecordHistory(ReconcileContext& context, const core::GangStatus& gang);
// The last answer of machine 0's current attempt, which may have ended since; null: there is none.
const core::GangStatus* LastReport(const ReconcileContext& context);
// The generations of machine 0's current attempt: those of its last answer, and those that ended
// after it and that a termination message has. Their times are for WallOf.
std::vector<core::GangStatus::GenerationStatus> LastGenerations(const ReconcileContext& context);
// Records what is known of a gang before it is dissolved or replaced, or the job has ended.
void RecordLastReport(ReconcileContext& context);
// The job has failed with this generation, whose end may not be reported.
void RecordVerdict(ReconcileContext& context, core::Generation generation,
                   const core::Failure& failure);
// Counts restarts by the cause that ended the previous generation: a generation that follows
// another, and a rank that was restarted alone. Counters and history are up to date.
void CountRestarts(ReconcileContext& context);
// Records the end of a generation whose machine 0 is lost, because no agent reports it.
void RecordLossOfMachine0(ReconcileContext& context, core::Cause cause);
// ledger.cc: accounts the machines' time until now, when the coordinator is lost with its
// knowledge, and when the gang is dissolved. It needs no separate write.
void AccountTime(ReconcileContext& context);
void AccountLossOfMachine0(ReconcileContext& context, core::Cause cause);
void CloseAccounts(ReconcileContext& context);
// The coordinator's times count from the start of its agent. That is the start of its container,
// which kubelet reports in seconds.
std::optional<WallTime> WallOf(const ReconcileContext& context,
                               const std::optional<Duration>& since_birth);

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_POLICY_STATUS_STATUS_POLICIES_H_
