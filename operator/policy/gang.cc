#include "operator/policy/facts/rules.h"
#include "operator/policy/policies.h"
#include "operator/policy/status/status_policies.h"

namespace lockstep::control {
namespace {

constexpr Duration kOutrankAgain = minutes(1);  // for who says so again and again
// A pod may be seen before the status that ordered it, but not for this long.
constexpr Duration kAheadPatience = minutes(1);

// Ends that machine 0 learns, so that it need not wait for silence: the newest ended attempt of
// every machine except machine 0.
std::vector<core::DesiredState::Terminated> Terminated(const ReconcileContext& context) {
  std::vector<core::DesiredState::Terminated> ended;
  for (const Machine& machine : context.machines) {
    if (machine.index == 0) continue;
    const MachineObservation* last = nullptr;
    if (machine.life == Life::kEnded) last = machine.seen;
    for (const MachineObservation* seen : machine.earlier) {
      if (seen->over() && (last == nullptr || seen->attempt > last->attempt)) last = seen;
    }
    if (last == nullptr) continue;
    ended.push_back(
        {machine.index, last->attempt,
         last->end->out_of_memory ? core::Cause::kOutOfMemory : core::Cause::kMachineLost});
  }
  return ended;
}

std::vector<core::DesiredState::Fenced> Fenced(const ReconcileContext& context) {
  std::vector<core::DesiredState::Fenced> fenced;
  for (const Machine& machine : context.machines) {
    if (machine.attempt <= 1) continue;
    if (PredecessorsDead(context.memory().attempts, machine)) {
      fenced.push_back({machine.index, machine.attempt});
    }
  }
  return fenced;
}

void RaiseEpoch(ReconcileContext& context, uint32_t epoch, const std::string& evidence) {
  context.next.epoch = epoch;
  context.AddEvent(true, "EpochRaised",
                   "status has gone back, as when an etcd is restored: " + evidence);
  context.WriteFirst();
}

// The highest attempt of a pod that a lost status ordered; 0: there is none. An operator that was
// paused while status went back may still make such a pod. Its agent's members may refuse the
// machine 0 of the restored status.
uint32_t AttemptOfLostStatus(ReconcileContext& context) {
  uint32_t highest = 0;
  for (const MachineObservation& seen : context.snapshot.machines) {
    if (!IsReachableEpoch(context.snapshot.status, seen.attempt)) continue;
    if (context.IsDue(seen.created + kAheadPatience)) highest = std::max(highest, seen.attempt);
  }
  return highest;
}

}  // namespace

bool GoneMeansDead(ReconcileContext& context) {
  const std::optional<Time>& since = context.memory().gang.fencing_since;
  if (!since || !Holds(Rule::kGoneMeansDead)) return false;
  for (const Machine& machine : context.machines) {
    for (const MachineObservation* seen : machine.earlier) {
      if (!seen->over()) return false;
    }
  }
  return context.IsDue(*since + context.snapshot.status.machine_lost_after);
}

void RememberFencing(ReconcileContext& context) {
  std::optional<Time>& since = context.StateOf<&PolicyState::gang>().fencing_since;
  const core::GangStatus* gang = Coordinator(context);
  if (gang == nullptr || !IsPhase(*gang, core::CoordinatorPhase::kFencing)) {
    since.reset();
  } else if (!since) {
    since = context.now.boot;
  }
}

bool RaiseEpoch(ReconcileContext& context) {
  if (const uint32_t attempt = AttemptOfLostStatus(context); attempt > 0) {
    RaiseEpoch(context, attempt, "a pod already has attempt " + std::to_string(attempt));
    return true;
  }
  const core::GangStatus* gang = Coordinator(context);
  if (gang == nullptr) return false;
  const core::JobStatus& status = context.snapshot.status;
  const bool behind =
      IsReachableEpoch(status, gang->epoch) ||
      (gang->epoch == status.epoch && gang->observed_generation > context.snapshot.generation);
  std::optional<Time>& last = context.StateOf<&PolicyState::gang>().outranked;
  if (!behind || (last && context.now.boot < *last + kOutrankAgain)) return false;
  last = context.now.boot;
  RaiseEpoch(context, gang->epoch + 1,
             "machine 0 already knows epoch " + std::to_string(gang->epoch));
  return true;
}

bool RecordLease(ReconcileContext& context) {
  const Duration length = context.spec().failure_policy.machine_lost_after;
  if (context.machines.empty() || length <= context.next.machine_lost_after) return false;
  if (!Holds(Rule::kLongLeaseRecorded)) return false;
  context.next.machine_lost_after = length;
  context.WriteFirst();
  return true;
}

void SpeakToGang(ReconcileContext& context, const std::optional<Stop>& stop) {
  if (context.machines.empty() || context.machines.front().life != Life::kRunning) return;
  const core::Spec& spec = context.spec();
  core::DesiredState desired;
  desired.job_uid = context.snapshot.uid;
  desired.epoch = context.snapshot.status.epoch;
  desired.observed_generation = context.snapshot.generation;
  desired.policy = spec.failure_policy;
  desired.metric_rules = core::SplitMetricRules(&*desired.policy);
  desired.health = core::DesiredState::Health{
      spec.health.hang_timeout, spec.health.hang_action == core::HangAction::kRestart};
  desired.machine_failures = context.snapshot.status.counters;
  desired.terminated = Terminated(context);
  desired.fenced = Fenced(context);
  if (const auto& elastic = context.snapshot.status.elastic) {
    desired.members = elastic->members;
    desired.witnesses = elastic->witnesses;
  }
  if (stop) desired.stop = core::DesiredState::DesiredStop{stop->reason, spec.grace_period};
  desired.restart = WantedRestart(context);
  desired.code = RecordedCode(context);
  context.decision.desired = std::move(desired);
}

}  // namespace lockstep::control
