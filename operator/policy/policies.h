// The policies that Decide goes through, one file each. Each looks at the draft's snapshot and adds
// to the draft what it wants done; those that return bool return true when nothing else may be
// decided before their intent is written.
#ifndef LOCKSTEP_OPERATOR_POLICY_POLICIES_H_
#define LOCKSTEP_OPERATOR_POLICY_POLICIES_H_

#include <optional>
#include <string>

#include "core/gang/messages.h"
#include "operator/policy/draft.h"

namespace lockstep::control {

// remember.cc: which attempts exist, and which were seen to be over; and what other policies must
// take note of even where they are not asked.
void Remember(Draft& draft);
void RememberAddresses(Draft& draft);
void RememberRelease(Draft& draft);
void RememberFencing(Draft& draft);

// verdict.cc: the end of the job, for whatever reason but a stop: a verdict of the gang, an agent
// that could not be configured, a machine budget that is spent, a spec that cannot run.
bool Conclude(Draft& draft);
bool IsFinished(const core::JobStatus& status);
// `status` becomes that of a job which ended.
void MarkFinished(core::JobStatus& status, bool success, const std::string& reason,
                  const std::string& message, const Now& now);

// finish.cc: after the end: cleanPodPolicy and ttlSecondsAfterFinished.
void CleanUp(Draft& draft);

// stop.cc: the gang is stopped at one moment and its attempts are taken back; then its pods go.
// What for is judged in suspend, deadline, scale and placement, in that order.
struct Stop {
  core::StopReason reason = core::StopReason::kSuspended;
  bool fails = false;     // the job ends with it
  bool releases = false;  // the gang lets go of its nodes and will try again
  std::string message;
};
std::optional<Stop> WantedStop(Draft& draft);
bool CarryOut(Draft& draft, const Stop& stop);
// Deletes what no gang needs. Whether nothing of it can be alive any more.
bool ClearAway(Draft& draft);
std::optional<Stop> StopForSuspend(Draft& draft);
std::optional<Stop> StopForDeadline(Draft& draft);
std::optional<Stop> StopForScale(Draft& draft);
std::optional<Stop> StopForStartTimeout(Draft& draft);

// pods.cc: an epoch for the whole gang; Secret, Services and pods that are missing; pods that are
// not wanted any more.
bool Assemble(Draft& draft);
void MakeMissing(Draft& draft);
void DeleteStale(Draft& draft);

// replacement.cc: machines that are lost get a new attempt, as long as there is a budget for it.
bool Replace(Draft& draft);
bool IsBudgetSpent(const Draft& draft);

// gang.cc: what machine 0 is to know; and before it may grant longer leases, that it may: the next
// machine 0 will wait for them.
bool RecordLease(Draft& draft);
void SpeakToGang(Draft& draft, const std::optional<Stop>& stop);

// observe.cc: what is seen, as status.
void Observe(Draft& draft, const std::optional<Stop>& stop);
// `restarts` from what stands in the counters.
void CountRestarts(core::JobStatus& status);
// reason.cc: in words a user can act on.
std::string WhyNotRunning(Draft& draft);
// Of a job that runs; "" when all is well.
std::string WorthKnowing(Draft& draft);
// alignment.cc: condition TopologyAligned, from what agents report and kubelets refuse; and one
// machine's binding, empty while unknown.
void ObserveAlignment(Draft& draft);
std::string BindingOf(const Draft& draft, const Machine& machine);
// stall.cc: condition Stalled.
void ObserveStall(Draft& draft);
// progress.cc: what ranks report, at most twice a minute; and at the job's end what its last agent
// told, or what was heard last.
void ObserveProgress(Draft& draft, const core::GangStatus& gang);
void ConcludeProgress(Draft& draft, const core::Termination* verdict);  // null: nobody's
// history.cc: how generations ended and the next ones came.
void RecordHistory(Draft& draft, const core::GangStatus& gang);
// Nobody else tells of the end of a generation whose machine 0 is lost.
void RecordLossOfMachine0(Draft& draft, core::Cause cause);
// The coordinator's times are durations since its agent was born, which is when its container was
// started, to the second that kubelet tells.
std::optional<WallTime> WallOf(const Draft& draft, const std::optional<Duration>& since_birth);

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_POLICY_POLICIES_H_
