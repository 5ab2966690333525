#include <algorithm>
#include <map>

#include "core/model/names.h"
#include "core/status/health.h"
#include "operator/policy/facts/rules.h"
#include "operator/policy/kube/kube_policies.h"
#include "operator/policy/policies.h"
#include "operator/policy/status/last_failure.h"
#include "operator/policy/status/status_policies.h"

namespace lockstep::control {
namespace {

using core::Condition;
using core::JobState;
using core::JobStatus;
using core::MachineState;

constexpr Duration kDetailsEvery = seconds(1);
// Urgent changes are written at once, until this many writes are ahead of one a second. So a gang
// that lies about its restarts writes no faster.
constexpr int kBurst = 10;

// Null: not among the worst hundred.
const core::MachineStatus* Listed(const JobStatus& status, uint32_t index) {
  const auto found = std::find_if(
      status.machine_statuses.begin(), status.machine_statuses.end(),
      [&](const core::MachineStatus& m) { return m.index == static_cast<int32_t>(index); });
  return found == status.machine_statuses.end() ? nullptr : &*found;
}

// The coordinator's view of a machine whose container runs.
MachineState FromGang(const core::GangStatus& status, const Machine& machine) {
  const core::GangStatus::MachineStatus* told = ReportOf(status, machine);
  if (told == nullptr) return MachineState::kStarting;
  using From = core::GangMachineState;
  switch (told->state) {
    case From::kJoining:
    case From::kStarting:
    case From::kExiting:
    case From::kAbsent:
      break;
    case From::kIdle:
      return MachineState::kIdle;
    case From::kRunning:
      return MachineState::kRunning;
    case From::kFinished:
      return MachineState::kFinished;
    case From::kStopping:
      return MachineState::kStopping;
    case From::kStopped:
      return MachineState::kStopped;
    case From::kLost:
      return MachineState::kLost;
    case From::kDraining:
      return MachineState::kDraining;
  }
  return MachineState::kStarting;
}

// An operator that has just started hears of the gang in a moment.
bool RunsAsBefore(const ReconcileContext& context) {
  return Coordinator(context) == nullptr && context.snapshot.status.state == JobState::kRunning &&
         std::all_of(context.machines.begin(), context.machines.end(), [&](const Machine& m) {
           return m.life == Life::kRunning || !TakesPart(context, m);
         });
}

MachineState StateOf(const ReconcileContext& context, const Machine& machine) {
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
  if (RunsAsBefore(context)) return MachineState::kRunning;
  const core::GangStatus* status = Coordinator(context);
  return status == nullptr ? MachineState::kStarting : FromGang(*status, machine);
}

// All that take part.
bool AllPlaced(const ReconcileContext& context) {
  return std::all_of(context.machines.begin(), context.machines.end(), [&](const Machine& m) {
    return m.life >= Life::kWaiting || !TakesPart(context, m);
  });
}

void ObserveMachines(ReconcileContext& context) {
  JobStatus& next = context.next;
  next.machines = {.desired = context.spec().num_machines,
                   .ready = 0,
                   .by_state = {},
                   .spares = ReadySpares(context)};
  next.machine_statuses.clear();
  bool all_made = !context.machines.empty();
  for (const Machine& machine : context.machines) {
    const MachineState state = StateOf(context, machine);
    ++next.machines.by_state[state];
    if (IsReady(machine)) ++next.machines.ready;
    all_made &= machine.life != Life::kToCreate;
    core::MachineStatus seen;
    seen.index = static_cast<int32_t>(machine.index);
    seen.state = state;
    if (const core::MachineStatus* before = Listed(context.snapshot.status, machine.index)) {
      seen.replacements = before->replacements;
      if (state == MachineState::kRunning) seen.usage = before->usage;
    }
    seen.binding = BindingOf(context, machine);
    if (machine.seen != nullptr) {
      seen.pod = machine.seen->name;
      seen.node = machine.seen->node;
    }
    next.machine_statuses.push_back(std::move(seen));
  }
  if (all_made) next.created_epoch = next.epoch;
  next.ready = std::to_string(next.machines.ready) + "/" + std::to_string(next.machines.desired);
  next.processes = static_cast<int32_t>(core::WorldSize(context.spec()));
  next.selector = "lockstep.dev/job=" + context.snapshot.job->metadata.name;
}

// Changes with every look, so it is refreshed only where the status is written anyway.
void NoteUsage(ReconcileContext& context) {
  const core::GangStatus* gang = Coordinator(context);
  if (gang == nullptr) return;
  std::map<int32_t, const core::Usage*> told;
  for (const core::GangStatus::MachineStatus& machine : gang->machines) {
    if (machine.usage) told[static_cast<int32_t>(machine.index)] = &*machine.usage;
  }
  for (core::MachineStatus& machine : context.next.machine_statuses) {
    const auto found = told.find(machine.index);
    if (machine.state == MachineState::kRunning && found != told.end()) {
      machine.usage = *found->second;
    }
  }
}

JobState StateOf(const ReconcileContext& context, const std::optional<Stop>& stop) {
  const JobStatus& status = context.snapshot.status;
  if (context.machines.empty()) {
    if (!stop) return JobState::kPending;
    const bool gone = context.snapshot.machines.empty() && context.snapshot.spares.empty();
    if (!gone) return JobState::kStopping;
    return stop->queues ? JobState::kQueued : JobState::kSuspended;
  }
  if (stop) return JobState::kStopping;
  const bool begun = status.timings.started.has_value();
  const core::GangStatus* gang = Coordinator(context);
  const bool runs = gang != nullptr && IsPhase(*gang, core::CoordinatorPhase::kRunning);
  // If a machine that will join at a checkpoint is lost before, no other machine stops.
  if (!AllPlaced(context) && !(runs && status.elastic)) {
    return begun ? JobState::kRestarting : JobState::kPending;
  }
  if (runs) return JobState::kRunning;
  if (RunsAsBefore(context)) return JobState::kRunning;
  return begun ? JobState::kRestarting : JobState::kStarting;
}

void ObserveConditions(ReconcileContext& context) {
  const JobStatus& next = context.next;
  const bool ready = PodsAreReady(context);
  SetCondition(context, "PodsReady", ready, ready ? "AllPodsReady" : "NotAllReady", "");
  const bool running = next.state == JobState::kRunning;
  SetCondition(context, "Running", running,
               running ? "AllRanksRunning" : core::ToString(next.state), "");
  if (next.state == JobState::kSuspended) {
    SetCondition(context, "Suspended", true, "SpecSuspend", "spec.suspend is true");
  }
  ObserveQueue(context);
  ObserveAlignment(context);
  ObserveStall(context);
  ObserveMetrics(context);
  ObserveStraggler(context);
  ObserveNodeHealth(context);
  ObserveWorld(context);
  ObserveElastic(context);
  const Refusal* refusal = context.refusal();
  const bool conflict = refusal != nullptr && refusal->kind == Refusal::Kind::kNameConflict;
  SetCondition(context, "NameConflict", conflict, conflict ? "ForeignObject" : "Resolved",
               conflict ? next.reason : "");
}

// A trouble is an event when condition Ready begins to have its word for a reason.
void ObserveHealth(ReconcileContext& context, const Why& why) {
  core::SetHealth(context.next, why.word, context.now.wall);
  const std::string word = why.word;
  const Condition* before = core::FindCondition(context.snapshot.status.conditions, "Ready");
  if (word.empty() || (before != nullptr && before->reason == word)) return;
  context.AddEvent(true, word, why.text);
}

void ObserveGang(ReconcileContext& context) {
  const core::GangStatus* gang = Coordinator(context);
  if (gang == nullptr) return;
  JobStatus& next = context.next;
  // A generation's end is in its record.
  const bool alone = gang->counters.alone > next.counters.alone &&
                     std::ranges::none_of(gang->history, [&](const core::GenerationRecord& record) {
                       return record.failure.message == gang->last_failure.message;
                     });
  if (!Holds(Rule::kCountersMerge)) next.counters = {};
  next.counters.Merge(gang->counters);
  // While the next one is prepared, it is not announced, and may never be.
  if (!gang->history.empty()) next.gang_generation = gang->history.back().generation;
  RecordHistory(context, *gang);
  RecordFailure(context, gang->last_failure, gang->generation, alone);
  ObserveProgress(context, *gang);
}

void ObserveTimings(ReconcileContext& context) {
  core::Timings& timings = context.next.timings;
  const bool placed = !context.machines.empty() && AllPlaced(context);
  std::optional<WallTime>& scheduled = context.StateOf<&PolicyState::observe>().scheduled;
  if (!placed) {
    scheduled.reset();
  } else if (!timings.scheduled) {
    // This observation may be written later.
    if (!scheduled) scheduled = context.now.wall;
    timings.scheduled = scheduled;
  }
  if (context.next.state == JobState::kRunning && !timings.started) {
    timings.started = context.now.wall;
    context.AddEvent(false, "Running", "every rank of every machine runs");
  }
  const core::GangStatus* gang = Coordinator(context);
  if (gang == nullptr || timings.first_step) return;
  for (const auto& generation : gang->history) {
    if (!generation.first_step) continue;
    // It counts from the container's start, which is known in whole seconds.
    timings.first_step = WallOf(context, generation.first_step);
    if (timings.first_step && timings.started) {
      timings.first_step = std::max(*timings.first_step, *timings.started);
    }
    return;
  }
}

// That all pods have a node is soon followed by their start.
bool IsPassing(JobState before, JobState after) {
  return before == JobState::kPending && after == JobState::kStarting;
}

// Fields that users wait for, or that decide. The others, above all counts of pods in transit,
// would be written once for every pod.
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
         before.gang_generation != after.gang_generation || before.counters != after.counters ||
         before.last_failure != after.last_failure || before.restart != after.restart ||
         before.code != after.code || !same_conditions(before, after);
}

}  // namespace

void Observe(ReconcileContext& context, const std::optional<Stop>& stop) {
  JobStatus& next = context.next;
  const size_t events = context.decision.events.size();
  next.observed_generation = context.snapshot.generation;
  ObserveMachines(context);
  ObserveGang(context);
  ObservePrestart(context);
  ObservePreflight(context);
  ObserveRestart(context);
  ObserveCode(context);
  next.state = StateOf(context, stop);
  ObserveTimings(context);
  CountRestarts(context);
  const bool runs = !stop && next.state == JobState::kRunning;
  Why why;
  if (stop) {
    why.text = stop->message;
  } else if (!runs) {
    why = WhyNotRunning(context);
  }
  next.reason = why.text;
  ObserveConditions(context);
  if (runs) why = WorthKnowing(context);
  next.reason = why.text;
  ObserveHealth(context, why);
  core::Shorten(next);
  if (next == context.snapshot.status) return;
  Time& paced = context.StateOf<&PolicyState::observe>().paced;
  const Time due = IsUrgent(context.snapshot.status, next)
                       ? paced - kBurst * kDetailsEvery
                       : context.memory().record.written + kDetailsEvery;
  if (!context.IsDue(due)) {
    context.decision.events.resize(events);  // told when it is written
    return;
  }
  core::Trim(next);
  if (next == context.snapshot.status) return;
  AccountTime(context);
  NoteUsage(context);
  core::Trim(next);
  paced = std::max(paced, context.now.boot) + kDetailsEvery;
  context.WriteLast();
}

}  // namespace lockstep::control
