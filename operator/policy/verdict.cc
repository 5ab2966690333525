#include <algorithm>
#include <map>
#include <utility>

#include "core/exit_codes.h"
#include "operator/policy/facts/rules.h"
#include "operator/policy/policies.h"
#include "operator/policy/status/last_failure.h"
#include "operator/policy/status/status_policies.h"

namespace lockstep::control {
namespace {

using core::Cause;
using core::Condition;
using core::MachineState;

// For machine 0 to end a job by itself, and for its end to be seen once it has told a verdict.
constexpr Duration kVerdictPatience = seconds(10);

// The job's failure in one sentence: the rank or machine, and the event.
std::string Sentence(const core::Failure& failure, const std::string& reason) {
  if (failure.message.empty()) return reason;
  return reason.empty() || reason == failure.message ? failure.message
                                                     : failure.message + "; " + reason;
}

bool End(ReconcileContext& context, bool success, const std::string& reason,
         const std::string& message, core::JobVerdict verdict,
         const core::Termination* told = nullptr) {
  context.next.verdict = verdict;
  ConcludeProgress(context, told);
  CloseAccounts(context);
  context.next.observed_generation = context.snapshot.generation;
  MarkFinished(context.next, success, reason, message, context.now);
  context.AddEvent(!success, success ? "Succeeded" : "Failed", message);
  context.why = reason;
  context.WriteFirst();
  return true;
}

bool Fail(ReconcileContext& context, Cause cause, int exit_code, const std::string& message) {
  core::Failure failure;
  failure.cause = cause;
  failure.message = message;
  context.next.last_failure = FailureRecord(context, failure, context.next.gang_generation);
  RecordVerdict(context, context.next.gang_generation, failure);
  return End(context, false, core::ToString(cause), message,
             {.generation = {}, .exit_code = exit_code, .cause = cause});
}

// A termination message has less room for texts than status.
bool IsKnown(const std::optional<core::LastFailure>& last, const core::Failure& told) {
  constexpr size_t kAlike = 64;
  return last && last->failure.cause == told.cause && last->failure.machine == told.machine &&
         last->failure.rank == told.rank && last->failure.exit_code == told.exit_code &&
         last->failure.signal == told.signal &&
         last->failure.message.starts_with(told.message.substr(0, kAlike));
}

bool EndByGang(ReconcileContext& context, const core::Termination& verdict) {
  const bool success = verdict.exit_code == core::kExitSuccess;
  RecordLastReport(context);
  context.next.gang_generation = verdict.generation;
  ObserveWorld(context);  // machine 0, which tells it, may be the last to leave
  DoubtWorld(context, verdict.doubt);
  if (verdict.counters) context.next.counters.Merge(*verdict.counters);
  if (!success) RecordVerdict(context, verdict.generation, verdict.failure);
  CountRestarts(context);
  if (success) {
    const core::Generation last = verdict.generation;
    if (!IsKnown(context.next.last_failure, verdict.failure)) {
      RecordFailure(context, verdict.failure, {last.attempt, last.n > 0 ? last.n - 1 : 0});
    }
  } else {
    context.next.last_failure = FailureRecord(context, verdict.failure, verdict.generation);
  }
  const Cause cause = success ? Cause::kNone : verdict.failure.cause;
  const std::string message = success ? verdict.reason : Sentence(verdict.failure, verdict.reason);
  if (!verdict.unwritten.empty()) {
    context.AddEvent(true, "CheckpointNotWritten", verdict.unwritten);
  }
  return End(context, success, success ? "Succeeded" : core::ToString(cause), message,
             {.generation = verdict.generation,
              .exit_code = success ? core::kExitSuccess
                                   : core::ExitCodeOfJob(verdict.failure, verdict.exit_code),
              .cause = cause},
             &verdict);
}

// A spec that the CRD accepts and core refuses. A running job keeps the rules that it began with,
// so an operator with a new rule ends no job.
bool RefuseSpec(ReconcileContext& context) {
  if (context.snapshot.problems.empty() || context.snapshot.status.epoch != 0) return false;
  std::string message;
  for (const core::Problem& problem : context.snapshot.problems) {
    if (!message.empty()) message += "; ";
    message += problem.path.empty() ? problem.message : problem.path + ": " + problem.message;
  }
  return End(
      context, false, "InvalidSpec", message,
      {.generation = {}, .exit_code = core::kExitConfiguration, .cause = Cause::kConfiguration});
}

// By ends of whole machines, of which machine 0 may never have heard.
bool FailByRestarts(ReconcileContext& context) {
  const core::Failure& last = *context.memory().replacement.of_job;
  const int used = context.snapshot.status.counters.application_used();
  const int allowed = context.spec().failure_policy.max_restarts;
  const bool misconfigured = last.cause == Cause::kConfiguration;
  context.next.last_failure = FailureRecord(context, last, context.next.gang_generation);
  return End(context, false, core::ToString(last.cause),
             last.message + "; failure " + std::to_string(used) +
                 " of the job's own, and spec.failurePolicy.maxRestarts is " +
                 std::to_string(allowed),
             {.generation = {},
              .exit_code = misconfigured ? core::kExitConfiguration : core::kExitFailed,
              .cause = last.cause});
}

// Machine 0 ends the job by itself when it hears of the count; without it, this does.
bool SpendBudget(ReconcileContext& context) {
  std::optional<Time>& since = context.StateOf<&PolicyState::verdict>().spent_since;
  if (!IsBudgetSpent(context) || context.machines.empty()) {
    since.reset();
    return false;
  }
  if (!since) since = context.now.boot;
  if (Coordinator(context) != nullptr && !context.IsDue(*since + kVerdictPatience)) return false;
  if (AreRestartsSpent(context)) return FailByRestarts(context);
  const int used = context.snapshot.status.counters.infrastructure_used();
  const int allowed = context.spec().failure_policy.max_machine_replacements;
  const std::optional<core::LastFailure>& last = context.snapshot.status.last_failure;
  return Fail(
      context, Cause::kMachineLost, core::kExitMachines,
      std::to_string(used) + (used == 1 ? " machine" : " machines") +
          " failed and spec.failurePolicy." + "maxMachineReplacements is " +
          std::to_string(allowed) +
          (last && !last->failure.message.empty() ? "; the last: " + last->failure.message : ""));
}

// The remains of a machine whose job has ended.
MachineState FinalState(MachineState state, const core::JobStatus& status) {
  const bool never_ran = state == MachineState::kAbsent || state == MachineState::kPending;
  if (status.state == core::JobState::kSucceeded) {
    // Its last states may have passed too quickly to be written.
    return never_ran && status.elastic ? MachineState::kAbsent : MachineState::kSucceeded;
  }
  if (never_ran) return MachineState::kAbsent;
  const bool lost = state == MachineState::kLost || state == MachineState::kFailed;
  return lost ? state : MachineState::kStopped;
}

void EndMachines(core::JobStatus& status) {
  core::MachineCounts& machines = status.machines;
  machines.ready = 0;
  machines.spares = 0;
  if (!status.ready.empty()) status.ready = "0/" + std::to_string(machines.desired);
  std::map<MachineState, int32_t> ended;
  for (const auto& [state, count] : machines.by_state) ended[FinalState(state, status)] += count;
  machines.by_state = std::move(ended);
  for (core::MachineStatus& machine : status.machine_statuses) {
    machine.state = FinalState(machine.state, status);
    machine.usage.reset();
  }
}

}  // namespace

void MarkFinished(core::JobStatus& status, bool success, const std::string& reason,
                  const std::string& message, const Now& now) {
  status.state = success ? core::JobState::kSucceeded : core::JobState::kFailed;
  status.reason = message;
  status.timings.finished = now.wall;
  EndMachines(status);
  if (status.prestart) {  // what waited has left with the agents
    status.prestart->ready = 0;
    status.prestart->reason.clear();
  }
  const auto set = [&](const char* type, bool holds, const std::string& why,
                       const std::string& text) {
    core::SetCondition(status.conditions,
                       {.type = type,
                        .status = holds ? Condition::Value::kTrue : Condition::Value::kFalse,
                        .reason = why,
                        .message = text,
                        .observed_generation = status.observed_generation,
                        .last_transition_time = now.wall},
                       now.wall);
  };
  set(success ? "Complete" : "Failed", true, reason, message);
  for (const char* type :
       {"PodsReady", "Running", "MetricBroken", "HangSuspected", "Straggler", "OnSickNode"}) {
    if (core::FindCondition(status.conditions, type) != nullptr) {
      set(type, false, "Finished", "the job has ended");
    }
  }
  core::Trim(status);  // the machines' states have changed, and with them the order
}

bool Conclude(ReconcileContext& context) {
  if (RefuseSpec(context)) return true;
  for (const Machine& machine : context.machines) {
    if (!Holds(Rule::kVoidVerdicts)) {
      for (const MachineObservation* seen : machine.earlier) {
        if (!seen->over()) continue;
        const auto message = core::ParseTermination(seen->end->termination);
        if (message.ok() && message->verdict) return EndByGang(context, *message);
      }
    }
    if (machine.life != Life::kEnded && machine.life != Life::kGone) continue;
    const struct End end = EndOf(context.snapshot, machine);
    if (end.kind == EndKind::kVerdict) return EndByGang(context, *end.message);
    if (end.kind == EndKind::kConfiguration) {
      return Fail(context, Cause::kConfiguration, core::kExitConfiguration,
                  NameOf(machine) + ": " + end.what);
    }
  }
  const std::optional<core::Termination> heard = VerdictHeard(context.snapshot);
  if (!heard) return SpendBudget(context);
  if (!context.IsDue(context.snapshot.coordinator->at + kVerdictPatience)) return false;
  return EndByGang(context, *heard);
}

}  // namespace lockstep::control
