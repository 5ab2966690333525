#include "cli/run/decide.h"

#include <algorithm>

#include "core/exit_codes.h"

namespace lockstep::cli {
namespace {

using core::Cause;
using core::GangStatus;

constexpr Duration kWindDown = seconds(10);         // from the verdict to SIGKILL for who is left
constexpr Duration kStopSlack = seconds(15);        // beyond the grace period, likewise
constexpr Duration kWishPatience = seconds(2);      // for machine 0 to take a stop
constexpr Duration kVerdictPatience = seconds(10);  // for it to end a job whose budget is spent
constexpr Duration kQuickExit = seconds(1);
constexpr Duration kQuickExitDelay = seconds(1);

uint32_t Machine0Attempt(const Snapshot& snapshot) { return snapshot.machines.front().attempt; }

bool AnyRunning(const Snapshot& snapshot) {
  return std::any_of(snapshot.machines.begin(), snapshot.machines.end(),
                     [](const Machine& machine) { return machine.running; });
}

// The last answer of the coordinator that is running now.
const GangStatus* Coordinator(const Snapshot& snapshot) {
  const Machine& machine0 = snapshot.machines.front();
  if (!machine0.running || !snapshot.coordinator) return nullptr;
  return snapshot.coordinator->attempt == machine0.attempt ? &*snapshot.coordinator : nullptr;
}

bool IsVerdict(const Machine& machine, uint32_t machine0_attempt) {
  return machine.exit && machine.exit->message &&
         core::VerdictCounts(*machine.exit->message, machine.attempt, machine0_attempt);
}

const AgentExit* FindVerdict(const Snapshot& snapshot) {
  for (const Machine& machine : snapshot.machines) {
    if (IsVerdict(machine, Machine0Attempt(snapshot))) return &*machine.exit;
  }
  return nullptr;
}

// An agent that says its configuration is wrong would say so again.
const Machine* FindMisconfigured(const Snapshot& snapshot) {
  for (const Machine& machine : snapshot.machines) {
    if (machine.exit && !machine.terminated && machine.exit->code == core::kExitConfiguration) {
      return &machine;
    }
  }
  return nullptr;
}

std::string Name(const Snapshot& snapshot, const Machine& machine) {
  return "machine " + std::to_string(&machine - snapshot.machines.data());
}

core::GangWish MakeWish(const Snapshot& snapshot) {
  core::GangWish wish;
  wish.job_uid = snapshot.job_uid;
  wish.epoch = snapshot.epoch;
  wish.machine_failures = snapshot.counters;
  wish.terminated = snapshot.ended;
  return wish;
}

void KillAll(const Snapshot& snapshot, const std::string& why, Decision* decision) {
  for (size_t i = 0; i < snapshot.machines.size(); ++i) {
    const Machine& machine = snapshot.machines[i];
    if (machine.running && !machine.killed) {
      decision->kill.push_back({static_cast<uint32_t>(i), why});
    }
  }
}

void TerminateAll(const Snapshot& snapshot, Decision* decision) {
  for (size_t i = 0; i < snapshot.machines.size(); ++i) {
    const Machine& machine = snapshot.machines[i];
    if (machine.running && !machine.terminated && !machine.killed) {
      decision->terminate.push_back(static_cast<uint32_t>(i));
    }
  }
}

// All is decided; who is still there has until `deadline`.
Decision WindDown(const Snapshot& snapshot, Time now, Time deadline, Outcome outcome,
                  const std::string& why = "it did not leave in time") {
  Decision decision;
  if (!AnyRunning(snapshot)) {
    decision.outcome = std::move(outcome);
  } else if (now >= deadline) {
    KillAll(snapshot, why, &decision);
  } else {
    decision.wake = deadline;
  }
  return decision;
}

// The same, for agents that don't know yet that it is over.
Decision GiveUp(const Snapshot& snapshot, Time now, Time since, Outcome outcome) {
  Decision decision =
      WindDown(snapshot, now, since + snapshot.grace + kStopSlack, std::move(outcome));
  if (decision.kill.empty()) TerminateAll(snapshot, &decision);
  return decision;
}

Outcome OutcomeOf(const core::Termination& verdict) {
  bool success = verdict.exit_code == 0;
  Outcome outcome;
  outcome.state = success ? JobState::kSucceeded : JobState::kFailed;
  outcome.exit_code = ExitCodeOf(verdict);
  outcome.reason = verdict.reason;
  outcome.generation = verdict.generation;
  if (!success) outcome.failure = verdict.failure;
  return outcome;
}

std::optional<StopWish> EffectiveStop(const Snapshot& snapshot, Time now) {
  if (snapshot.stop) return snapshot.stop;
  if (snapshot.active_deadline == Duration::zero()) return std::nullopt;
  Time deadline = snapshot.started + snapshot.active_deadline;
  if (now < deadline) return std::nullopt;
  return StopWish{core::StopReason::kDeadline, core::kExitDeadline, deadline};
}

Outcome OutcomeOf(const StopWish& stop) {
  Outcome outcome;
  outcome.exit_code = stop.exit_code;
  outcome.failure.cause = Cause::kStopRequested;
  if (stop.reason == core::StopReason::kDeadline) {
    outcome.state = JobState::kFailed;
    outcome.reason = "spec.activeDeadlineSeconds passed";
  } else {
    outcome.state = JobState::kSuspended;
    outcome.reason = "stopped on request";
  }
  outcome.failure.message = outcome.reason;
  return outcome;
}

// Whether the gang's ranks are stopped, so that its agents may leave: machine 0 says so, or can't.
bool MayLeave(const Snapshot& snapshot, const StopWish& stop, Time now) {
  const GangStatus* status = Coordinator(snapshot);
  if (status == nullptr)
    return !snapshot.machines.front().running || now >= stop.at + kWishPatience;
  if (!snapshot.wish_accepted) return now >= stop.at + kWishPatience;
  return status->phase == core::GangPhase(core::CoordinatorPhase::kHeld);
}

Decision Stop(const Snapshot& snapshot, const StopWish& stop, Time now) {
  Decision decision =
      WindDown(snapshot, now, stop.at + snapshot.grace + kStopSlack, OutcomeOf(stop));
  if (decision.outcome || !decision.kill.empty()) return decision;
  decision.wish = MakeWish(snapshot);
  decision.wish->stop = core::GangWish::StopWish{stop.reason, snapshot.grace};
  if (MayLeave(snapshot, stop, now)) {
    TerminateAll(snapshot, &decision);
  } else if (now < stop.at + kWishPatience) {
    decision.wake = std::min(decision.wake, stop.at + kWishPatience);
  }
  return decision;
}

bool BudgetSpent(const Snapshot& snapshot) {
  return snapshot.counters.infrastructure_used() > snapshot.policy.max_machine_replacements;
}

// Machine 0 ends the job by itself when it hears of the count; without it, this does.
std::optional<Decision> SpentBudget(const Snapshot& snapshot, Time now) {
  if (!BudgetSpent(snapshot)) return std::nullopt;
  const Machine& machine0 = snapshot.machines.front();
  Time patience = snapshot.last_replacement + kVerdictPatience;
  if (machine0.running && now < patience) {
    Decision decision;
    decision.wish = MakeWish(snapshot);
    decision.wake = patience;
    return decision;
  }
  Outcome outcome;
  outcome.exit_code = core::kExitMachines;
  outcome.reason = std::to_string(snapshot.counters.infrastructure_used()) +
                   " machines failed and spec.failurePolicy.maxMachineReplacements is " +
                   std::to_string(snapshot.policy.max_machine_replacements);
  outcome.failure.cause = Cause::kMachineLost;
  outcome.failure.message = outcome.reason;
  return GiveUp(snapshot, now, snapshot.last_replacement, std::move(outcome));
}

// Evidence that an agent which still runs is lost: the coordinator's word, or for machine 0 that of
// a member. A word about another attempt is none.
void KillLost(const Snapshot& snapshot, Decision* decision) {
  auto judge = [&](const GangStatus& status, const GangStatus::MachineStatus& seen) {
    const std::string witness = "machine " + std::to_string(status.machine);
    if (seen.index >= snapshot.machines.size()) return;
    const Machine& machine = snapshot.machines[seen.index];
    if (!machine.running || machine.killed || seen.attempt != machine.attempt) return;
    // A member calls machine 0 lost until it has heard of it.
    bool silent = seen.silent_for >= snapshot.policy.machine_lost_after ||
                  (status.coordinator && seen.state == core::GangMachineState::kLost);
    if (seen.replace) {
      decision->kill.push_back({seen.index, "failurePolicy asks for another machine"});
    } else if (silent) {
      decision->kill.push_back({seen.index, witness + " has not heard of it for " +
                                                std::to_string(seen.silent_for / seconds(1)) +
                                                " s"});
    }
  };
  if (const GangStatus* status = Coordinator(snapshot)) {
    for (const auto& seen : status->machines) {
      if (seen.index != 0) judge(*status, seen);
    }
  }
  if (snapshot.member) {
    for (const auto& seen : snapshot.member->machines) {
      if (seen.index == 0) judge(*snapshot.member, seen);
    }
  }
}

// Starts what was never started, and what ended; after a second quick exit not at once.
void StartMissing(const Snapshot& snapshot, Time now, Decision* decision) {
  for (size_t i = 0; i < snapshot.machines.size(); ++i) {
    const Machine& machine = snapshot.machines[i];
    if (machine.running || (machine.attempt != 0 && !machine.exit)) continue;
    Time due = Time::min();
    if (machine.starts >= 2 && machine.exit->at - machine.started < kQuickExit) {
      due = machine.exit->at + kQuickExitDelay;
    }
    if (now >= due) {
      decision->start.push_back(static_cast<uint32_t>(i));
    } else {
      decision->wake = std::min(decision->wake, due);
    }
  }
}

void ResetBudget(const Snapshot& snapshot, Time now, Decision* decision) {
  const GangStatus* status = Coordinator(snapshot);
  if (snapshot.counters.infrastructure_used() == 0 || status == nullptr ||
      status->phase != core::GangPhase(core::CoordinatorPhase::kRunning)) {
    return;
  }
  Time due = snapshot.last_replacement + snapshot.policy.reset_after;
  if (now >= due) {
    decision->reset_replacements = true;
  } else {
    decision->wake = std::min(decision->wake, due);
  }
}

}  // namespace

const char* ToString(JobState state) {
  switch (state) {
    case JobState::kSucceeded:
      return "Succeeded";
    case JobState::kFailed:
      return "Failed";
    case JobState::kSuspended:
      return "Suspended";
  }
  return "";
}

bool IsMachineFailure(const Machine& machine, uint32_t machine0_attempt) {
  return machine.exit && !machine.terminated && machine.exit->code != core::kExitStopped &&
         !IsVerdict(machine, machine0_attempt);
}

int ExitCodeOf(const core::Termination& termination) {
  if (termination.exit_code == 0) return core::kExitSuccess;
  const core::Failure& failure = termination.failure;
  if (failure.signal > 0) return core::kExitSignal + failure.signal;
  if (failure.exit_code > 0) return failure.exit_code;
  bool machines = core::ClassOf(failure.cause) == core::CauseClass::kInfrastructure;
  return machines ? core::kExitMachines : termination.exit_code;
}

Decision Decide(const Snapshot& snapshot, Time now) {
  if (const AgentExit* verdict = FindVerdict(snapshot)) {
    return WindDown(snapshot, now, verdict->at + kWindDown, OutcomeOf(*verdict->message));
  }
  std::optional<StopWish> stop = EffectiveStop(snapshot, now);
  if (snapshot.kill && stop) return WindDown(snapshot, now, now, OutcomeOf(*stop), "");
  if (stop) return Stop(snapshot, *stop, now);
  if (const Machine* machine = FindMisconfigured(snapshot)) {
    Outcome outcome;
    outcome.exit_code = core::kExitConfiguration;
    outcome.reason = "the agent of " + Name(snapshot, *machine) +
                     " could not work with its configuration: " + machine->exit->last_words;
    outcome.failure.cause = Cause::kConfiguration;
    outcome.failure.message = outcome.reason;
    return GiveUp(snapshot, now, machine->exit->at, std::move(outcome));
  }
  if (std::optional<Decision> decision = SpentBudget(snapshot, now)) return *decision;

  Decision decision;
  if (snapshot.active_deadline > Duration::zero()) {
    decision.wake = snapshot.started + snapshot.active_deadline;
  }
  KillLost(snapshot, &decision);
  StartMissing(snapshot, now, &decision);
  ResetBudget(snapshot, now, &decision);
  if (!snapshot.ended.empty() || snapshot.counters.replacements > 0) {
    decision.wish = MakeWish(snapshot);
  }
  return decision;
}

}  // namespace lockstep::cli
