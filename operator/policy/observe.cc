#include <algorithm>

#include "core/model/names.h"
#include "operator/policy/policies.h"
#include "operator/policy/rules.h"

namespace lockstep::control {
namespace {

using core::Condition;
using core::JobState;
using core::JobStatus;
using core::MachineState;

constexpr Duration kDetailsEvery = seconds(1);

// Null: not among the worst hundred.
const core::MachineStatus* Listed(const JobStatus& status, uint32_t index) {
  const auto found = std::find_if(
      status.machine_statuses.begin(), status.machine_statuses.end(),
      [&](const core::MachineStatus& m) { return m.index == static_cast<int32_t>(index); });
  return found == status.machine_statuses.end() ? nullptr : &*found;
}

// What the coordinator says of a machine whose container runs.
MachineState FromGang(const core::GangStatus& status, const Machine& machine) {
  for (const auto& seen : status.machines) {
    if (seen.index != machine.index || seen.attempt != machine.attempt) continue;
    // The gang's names are a subset of status', but for those of agents that have yet to join.
    if (auto state = core::ParseEnum<MachineState>(core::ToString(seen.state))) {
      return *state == MachineState::kAbsent ? MachineState::kStarting : *state;
    }
  }
  return MachineState::kStarting;
}

// An operator that has just started hears of the gang in a moment.
bool RunsAsBefore(const Draft& draft) {
  return Coordinator(draft) == nullptr && draft.snapshot.status.state == JobState::kRunning &&
         std::all_of(draft.machines.begin(), draft.machines.end(),
                     [](const Machine& m) { return m.life == Life::kRunning; });
}

MachineState StateOf(const Draft& draft, const Machine& machine) {
  switch (machine.life) {
    case Life::kNone:
    case Life::kToCreate:
      return MachineState::kAbsent;
    case Life::kPending:
      return MachineState::kPending;
    case Life::kWaiting:
      return MachineState::kStarting;
    case Life::kEnded:
      return MachineState::kFailed;
    case Life::kGone:
      return MachineState::kLost;
    case Life::kRunning:
      break;
  }
  if (RunsAsBefore(draft)) return MachineState::kRunning;
  const core::GangStatus* status = Coordinator(draft);
  return status == nullptr ? MachineState::kStarting : FromGang(*status, machine);
}

bool IsReady(const Machine& machine) {
  return machine.life == Life::kRunning && machine.seen->ready;
}

void ObserveMachines(Draft& draft) {
  JobStatus& next = draft.next;
  next.machines = {.desired = draft.spec().num_machines, .ready = 0, .by_state = {}};
  next.machine_statuses.clear();
  bool all_made = !draft.machines.empty();
  for (const Machine& machine : draft.machines) {
    const MachineState state = StateOf(draft, machine);
    ++next.machines.by_state[state];
    if (IsReady(machine)) ++next.machines.ready;
    all_made &= machine.life != Life::kToCreate;
    core::MachineStatus seen;
    seen.index = static_cast<int32_t>(machine.index);
    seen.state = state;
    if (const core::MachineStatus* before = Listed(draft.snapshot.status, machine.index)) {
      seen.replacements = before->replacements;
    }
    seen.binding = BindingOf(draft, machine);
    if (machine.seen != nullptr) {
      seen.pod = machine.seen->name;
      seen.node = machine.seen->node;
    }
    next.machine_statuses.push_back(std::move(seen));
  }
  if (all_made) next.created_epoch = next.epoch;
  next.ready = std::to_string(next.machines.ready) + "/" + std::to_string(next.machines.desired);
  next.processes = static_cast<int32_t>(core::WorldSize(draft.spec()));
  next.selector = "lockstep.dev/job=" + draft.snapshot.job->metadata.name;
}

JobState StateOf(const Draft& draft, const std::optional<Stop>& stop) {
  const JobStatus& status = draft.snapshot.status;
  if (draft.machines.empty()) {
    if (!stop) return JobState::kPending;
    return draft.snapshot.machines.empty() ? JobState::kSuspended : JobState::kStopping;
  }
  if (stop) return JobState::kStopping;
  const bool begun = status.timings.started.has_value();
  const bool placed = std::all_of(draft.machines.begin(), draft.machines.end(),
                                  [](const Machine& m) { return m.life >= Life::kWaiting; });
  if (!placed) return begun ? JobState::kRestarting : JobState::kPending;
  const core::GangStatus* gang = Coordinator(draft);
  if (gang != nullptr && IsPhase(*gang, core::CoordinatorPhase::kRunning)) {
    return JobState::kRunning;
  }
  if (RunsAsBefore(draft)) return JobState::kRunning;
  return begun ? JobState::kRestarting : JobState::kStarting;
}

void ObserveConditions(Draft& draft) {
  const JobStatus& next = draft.next;
  const bool ready = !draft.machines.empty() && next.machines.ready == next.machines.desired;
  SetCondition(draft, "PodsReady", ready, ready ? "AllPodsReady" : "NotAllReady", "");
  const bool running = next.state == JobState::kRunning;
  SetCondition(draft, "Running", running, running ? "AllRanksRunning" : core::ToString(next.state),
               "");
  if (next.state == JobState::kSuspended) {
    SetCondition(draft, "Suspended", true, "SpecSuspend", "spec.suspend is true");
  }
  ObserveAlignment(draft);
  ObserveStall(draft);
  const Refusal* refusal = draft.refusal();
  const bool conflict = refusal != nullptr && refusal->kind == Refusal::Kind::kNameConflict;
  SetCondition(draft, "NameConflict", conflict, conflict ? "ForeignObject" : "Resolved",
               conflict ? next.reason : "");
}

void ObserveFailure(Draft& draft, const core::GangStatus& gang) {
  const core::Failure& failure = gang.last_failure;
  if (failure.cause == core::Cause::kNone) return;
  std::optional<core::LastFailure>& last = draft.next.last_failure;
  JobStatus as_written;
  as_written.last_failure = core::LastFailure{.failure = failure};
  core::Trim(as_written);
  if (last && last->failure == as_written.last_failure->failure) return;
  core::LastFailure seen;
  seen.time = draft.now.wall;
  seen.epoch = draft.next.epoch;
  seen.generation = gang.generation;
  seen.failure = failure;
  if (failure.machine >= 0 && static_cast<size_t>(failure.machine) < draft.machines.size()) {
    const Machine& machine = draft.machines[static_cast<size_t>(failure.machine)];
    if (machine.seen != nullptr) seen.node = machine.seen->node;
  }
  draft.Tell(true, core::ToString(failure.cause), failure.message);
  last = std::move(seen);
}

void ObserveGang(Draft& draft) {
  const core::GangStatus* gang = Coordinator(draft);
  if (gang == nullptr) return;
  JobStatus& next = draft.next;
  if (!Holds(Rule::kCountersMerge)) next.counters = {};
  next.counters.Merge(gang->counters);
  if (gang->generation.exists()) next.generation = gang->generation;
  RecordHistory(draft, *gang);
  ObserveFailure(draft, *gang);
  ObserveProgress(draft, *gang);
}

void ObserveTimings(Draft& draft) {
  core::Timings& timings = draft.next.timings;
  const bool placed = !draft.machines.empty() &&
                      std::all_of(draft.machines.begin(), draft.machines.end(),
                                  [](const Machine& m) { return m.life >= Life::kWaiting; });
  std::optional<WallTime>& scheduled = draft.Own<&Memory::observe>().scheduled;
  if (!placed) {
    scheduled.reset();
  } else if (!timings.scheduled) {
    // What is seen now may be written later.
    if (!scheduled) scheduled = draft.now.wall;
    timings.scheduled = scheduled;
  }
  if (draft.next.state == JobState::kRunning && !timings.started) {
    timings.started = draft.now.wall;
    draft.Tell(false, "Running", "every rank of every machine runs");
  }
  const core::GangStatus* gang = Coordinator(draft);
  if (gang == nullptr || timings.first_step) return;
  for (const auto& generation : gang->history) {
    if (!generation.first_step) continue;
    timings.first_step = WallOf(draft, generation.first_step);
    return;
  }
}

// That all pods have a node is soon followed by their start.
bool IsPassing(JobState before, JobState after) {
  return before == JobState::kPending && after == JobState::kStarting;
}

// What people wait for, or what is decided by. The rest, counts of pods on their way above all,
// would otherwise be written once for every pod.
bool IsUrgent(const JobStatus& before, const JobStatus& after) {
  const auto same_conditions = [](const JobStatus& a, const JobStatus& b) {
    return std::equal(a.conditions.begin(), a.conditions.end(), b.conditions.begin(),
                      b.conditions.end(), [](const Condition& x, const Condition& y) {
                        return x.type == y.type && x.status == y.status;
                      });
  };
  return (before.state != after.state && !IsPassing(before.state, after.state)) ||
         before.created_epoch != after.created_epoch ||
         before.observed_generation != after.observed_generation ||
         before.generation != after.generation || before.counters != after.counters ||
         before.last_failure != after.last_failure || !same_conditions(before, after);
}

}  // namespace

void CountRestarts(core::JobStatus& status) {
  const core::Counters& counters = status.counters;
  core::RestartCounts& restarts = status.restarts;
  restarts.application = static_cast<int32_t>(counters.process_failures + counters.out_of_memory);
  restarts.infrastructure = static_cast<int32_t>(counters.replacements + counters.leases_expired);
  restarts.stopped = static_cast<int32_t>(counters.stops);
  restarts.total = restarts.application + restarts.infrastructure + restarts.stopped;
}

void Observe(Draft& draft, const std::optional<Stop>& stop) {
  JobStatus& next = draft.next;
  next.observed_generation = draft.snapshot.generation;
  ObserveMachines(draft);
  ObserveGang(draft);
  next.state = StateOf(draft, stop);
  ObserveTimings(draft);
  CountRestarts(next);
  next.reason = stop ? stop->message : next.state == JobState::kRunning ? "" : WhyNotRunning(draft);
  ObserveConditions(draft);
  if (!stop && next.state == JobState::kRunning) next.reason = WorthKnowing(draft);
  core::Trim(next);
  if (next == draft.snapshot.status) return;
  const Time written = draft.memory().record.written;
  if (!IsUrgent(draft.snapshot.status, next) && draft.now.boot < written + kDetailsEvery) {
    draft.WakeAt(written + kDetailsEvery);
    return;
  }
  draft.Show();
}

}  // namespace lockstep::control
