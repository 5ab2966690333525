#include <algorithm>
#include <utility>

#include "core/exit_codes.h"
#include "core/failure/failure.h"
#include "operator/policy/facts/rules.h"
#include "operator/policy/loss.h"
#include "operator/policy/policies.h"
#include "operator/policy/status/status_policies.h"

namespace lockstep::control {
namespace {

constexpr Duration kQuick = seconds(60);  // a machine that lived less waits before its next attempt
constexpr Duration kFresh = seconds(60);  // reports older than this say nothing
constexpr Duration kReasonPatience = seconds(5);
// The machines that a coordinator asks to replace, and machine 0 once.
constexpr int kMostFreeSlow = 3;

Loss AskedForByPolicy(const Machine& machine) {
  return {&machine, EndKind::kLost, "failurePolicy asks for a replacement"};
}

// Agents' reports about a machine whose pod looks healthy. Ignore reports about other attempts, and
// reports of replaced agents.
std::optional<Loss> Accusation(const ReconcileContext& context, const GangReport& report,
                               const Machine& machine) {
  const core::GangStatus& status = report.status;
  if (context.now.boot - report.at > kFresh || status.machine >= context.machines.size()) {
    return std::nullopt;
  }
  const Machine& witness = context.machines[status.machine];
  if (witness.life != Life::kRunning || witness.attempt != status.attempt) return std::nullopt;
  const core::GangStatus::MachineStatus* told = ReportOf(status, machine);
  if (told == nullptr) return std::nullopt;
  if (told->replace) return AskedForByPolicy(machine);
  const bool silent = told->silent_for >= context.spec().failure_policy.machine_lost_after;
  // A member calls machine 0 lost until it has heard of it.
  const bool may_call_lost = status.coordinator || !Holds(Rule::kSilenceIsCounted);
  const bool called_lost = may_call_lost && told->state == core::GangMachineState::kLost;
  if (!silent && !called_lost) return std::nullopt;
  return Loss{&machine, EndKind::kSilent,
              "machine " + std::to_string(status.machine) + " has not heard from it for " +
                  std::to_string(told->silent_for / seconds(1)) + " s"};
}

// Other machines report machine 0's silence, and machine 0 itself asks for its replacement. If
// machine 0 has answered the operator within machineLostAfter, it is alive. The machines that it
// cannot hear are lost.
std::optional<Loss> AccusationOfMachine0(ReconcileContext& context, const Machine& machine) {
  const core::GangStatus* own = Coordinator(context);
  if (own != nullptr) {
    for (const auto& seen : own->machines) {
      if (seen.index == 0 && seen.replace) return AskedForByPolicy(machine);
    }
  }
  if (!context.snapshot.member) return std::nullopt;
  std::optional<Loss> accusation = Accusation(context, *context.snapshot.member, machine);
  if (!accusation || own == nullptr) return accusation;
  const Time due =
      context.snapshot.coordinator->at + context.spec().failure_policy.machine_lost_after;
  return context.IsDue(due) ? accusation : std::nullopt;
}

bool HasJoined(const ReconcileContext& context, const Machine& machine) {
  const std::optional<GangReport>& coordinator = context.snapshot.coordinator;
  if (!coordinator) return false;
  if (machine.index == 0) return coordinator->status.attempt == machine.attempt;
  return ReportOf(coordinator->status, machine) != nullptr;
}

// Machine 0 has run for longer than a machine may be silent. Every live agent has sent HELLO by
// now.
bool HasListened(const ReconcileContext& context) {
  const std::optional<GangReport>& coordinator = context.snapshot.coordinator;
  const Machine& machine0 = context.machines.front();
  if (!coordinator || coordinator->status.attempt != machine0.attempt ||
      context.now.boot - coordinator->at > kFresh || machine0.seen == nullptr) {
    return false;
  }
  const std::optional<WallTime>& since = machine0.seen->started;
  return since && context.now.wall >= *since + context.spec().failure_policy.machine_lost_after;
}

// A machine that the gang has never heard of, on a node that the cluster does not hear of either. A
// scheduler sends pods to a dead node until Kubernetes notices, and a machine may die together with
// the machine 0 that knew it. If its agent still connects, its attempt is too low.
std::optional<Loss> FindStranded(const ReconcileContext& context, const Machine& machine) {
  if (machine.seen->node_state != NodeState::kUnreachable) return std::nullopt;
  if (HasJoined(context, machine)) return std::nullopt;
  if (machine.life == Life::kRunning && !HasListened(context)) return std::nullopt;
  return Loss{&machine, EndKind::kLost,
              "node " + machine.seen->node +
                  " cannot be reached, and the gang has not heard from the machine"};
}

std::optional<Loss> FindLoss(ReconcileContext& context, const Machine& machine) {
  if (machine.life == Life::kEnded || machine.life == Life::kGone) {
    return LossByEnd(context, machine);
  }
  if (machine.life == Life::kWaiting) {
    std::optional<Loss> stranded = FindStranded(context, machine);
    return stranded ? stranded : FindStuck(context, machine);
  }
  if (machine.life != Life::kRunning) return std::nullopt;
  if (context.spec().topology.policy == core::TopologyPolicy::kRequired) {
    const std::string otherwise = BoundOtherwise(context, machine);
    const std::string where = " on node " + machine.seen->node;
    if (!otherwise.empty()) {
      Loss loss{&machine, EndKind::kRejected, "it " + otherwise + where};
      loss.elsewhere = true;
      return loss;
    }
  }
  if (const std::string slow = SlownessOf(context, machine); !slow.empty()) {
    return Loss{&machine, EndKind::kSlow, "it is slow: " + slow};
  }
  const std::optional<GangReport>& coordinator = context.snapshot.coordinator;
  std::optional<Loss> accusation;
  if (machine.index == 0) {
    accusation = AccusationOfMachine0(context, machine);
  } else if (coordinator) {
    accusation = Accusation(context, *coordinator, machine);
  }
  return accusation ? accusation : FindStranded(context, machine);
}

// The end of the pod shows an eviction or a shutdown of the node, and it may come after the end of
// the agent. So 143 is not judged before the pod has ended.
bool AwaitsReason(ReconcileContext& context, const Loss& loss) {
  const MachineObservation* seen = loss.machine->last_seen;
  if (loss.kind != EndKind::kLost || seen == nullptr || !seen->end || seen->all_ended ||
      seen->end->exit_code != core::kExitStopped) {
    return false;
  }
  auto& awaited = context.StateOf<&PolicyState::replacement>().reasons[loss.machine->index];
  if (awaited.uid != seen->uid) awaited = {seen->uid, context.now.boot + kReasonPatience};
  return !context.IsDue(awaited.until);
}

// If a gang is split, one side stays: the reports of a lost machine 0 do not count.
std::vector<Loss> FindLosses(ReconcileContext& context) {
  std::vector<Loss> losses;
  bool machine0_lost = false;
  for (const Machine& machine : context.machines) {
    if (machine0_lost && machine.life == Life::kRunning) continue;
    std::optional<Loss> loss = FindLoss(context, machine);
    if (!loss) continue;
    machine0_lost |= machine.index == 0;
    losses.push_back(*loss);
  }
  return losses;
}

bool Runs(const ReconcileContext& context) {
  const core::GangStatus* gang = Coordinator(context);
  return gang != nullptr && IsPhase(*gang, core::CoordinatorPhase::kRunning);
}

// How long the machine's next attempt waits: at once for the first, later after quick ends, so that
// a node that rejects or kills everything is not asked again and again. A rejection is quick
// however long the image took that came before it.
void SetBackoff(ReconcileContext& context, const Loss& loss) {
  ReplacementState& memory = context.StateOf<&PolicyState::replacement>();
  const MachineObservation* last = loss.machine->last_seen;
  const uint32_t index = loss.machine->index;
  const bool rejected = loss.elsewhere;
  const bool quick = rejected || (last != nullptr && context.now.wall - last->created < kQuick);
  if (!quick) {
    memory.quick_ends.erase(index);
    return;
  }
  const int count = rejected ? ++memory.quick_ends[index] : memory.quick_ends[index]++;
  memory.hold_until[index] = context.now.boot + core::BackoffAfter(count);
}

// Whether the machine failed, and is said to have.
bool IsFailure(EndKind kind) { return kind != EndKind::kAsked && kind != EndKind::kSlow; }

// That status went back is no machine's fault, nor is it a failure to be slow; but who says so
// again and again is not believed.
// Machines that are rejected together are so for one reason, and cost one: a cluster that aligns
// nothing would else end a big job before a second node was tried.
void Charge(ReconcileContext& context, const Loss& loss, bool* rejection_charged) {
  core::Counters& counters = context.next.counters;
  const EndKind kind = loss.kind;
  if (kind == EndKind::kRejected && std::exchange(*rejection_charged, true)) return;
  if (kind == EndKind::kOutOfMemory || kind == EndKind::kJob) {
    if (!loss.counted) ++counters.out_of_memory;
  } else if (kind == EndKind::kOvertaken && !context.memory().replacement.overtaken) {
    context.StateOf<&PolicyState::replacement>().overtaken = true;
  } else if (kind == EndKind::kSlow && context.memory().replacement.slow < kMostFreeSlow) {
    ++context.StateOf<&PolicyState::replacement>().slow;
  } else if (kind != EndKind::kAsked) {
    ++counters.replacements;
  }
}

// Equal for ends of one kind, whatever numbers their messages have.
std::string LikenessOf(const MachineEnd& end) {
  if (end.container.empty()) return end.reason;
  return end.container + "/" + end.reason + "/" + std::to_string(end.exit_code) + "/" +
         std::to_string(end.signal);
}

// A gang that may shrink is made for nodes that come and go. So is a silent machine's loss, until
// it is known to be otherwise.
bool IsItsNodes(ReconcileContext& context, const Loss& loss) {
  const MachineObservation* last = loss.machine->last_seen;
  const bool silent = loss.kind == EndKind::kSilent;
  if (!context.snapshot.status.elastic || last == nullptr) return false;
  if (last->node_state != NodeState::kWell) return silent || loss.kind == EndKind::kLost;
  return silent && AwaitsWordOfNode(context, *loss.machine);
}

// Caused by the job: a container that ended, or a job that cannot run as it is written.
core::Cause CauseOfJob(const MachineEnd* end) {
  if (end == nullptr || end->container.empty()) return core::Cause::kConfiguration;
  if (end->out_of_memory) return core::Cause::kOutOfMemory;
  return end->signal > 0 ? core::Cause::kProcessSignal : core::Cause::kProcessExit;
}

core::Cause CauseOf(const Loss& loss) {
  if (!IsFailure(loss.kind)) return core::Cause::kStopRequested;
  if (loss.kind == EndKind::kJob) return CauseOfJob(loss.end);
  return loss.kind == EndKind::kOutOfMemory ? core::Cause::kOutOfMemory : core::Cause::kMachineLost;
}

core::Failure FailureOf(const Loss& loss) {
  core::Failure failure;
  failure.cause = CauseOf(loss);
  if (loss.end != nullptr && !loss.end->container.empty()) {
    failure.signal = loss.end->signal;
    if (failure.signal == 0) failure.exit_code = loss.end->exit_code;
  }
  failure.machine = static_cast<int>(loss.machine->index);
  failure.message = "machine " + std::to_string(loss.machine->index) + ": " + loss.what;
  return failure;
}

// For a machine that is not among the worst hundred, this is the first.
void CountReplacement(core::JobStatus& status, uint32_t index) {
  std::vector<core::MachineStatus>& listed = status.machine_statuses;
  const auto found = std::find_if(listed.begin(), listed.end(), [&](const auto& machine) {
    return machine.index == static_cast<int32_t>(index);
  });
  if (found != listed.end()) {
    ++found->replacements;
    return;
  }
  if (listed.size() >= core::kMaxMachineStatuses) listed.pop_back();  // the best of them
  core::MachineStatus machine;
  machine.index = static_cast<int32_t>(index);
  machine.replacements = 1;
  listed.push_back(std::move(machine));
}

// What a loss shows of the node.
void Suspect(ReconcileContext& context, const Loss& loss) {
  const MachineObservation* last = loss.machine->last_seen;
  if (last == nullptr) return;
  const bool lost = loss.kind == EndKind::kLost || loss.kind == EndKind::kSilent;
  if (lost) NoteSuspect(context, last->node, kLostThere, loss.what);
  if (loss.kind == EndKind::kSlow) NoteSuspect(context, last->node, kSlowThere, loss.what);
}

// A coordinator that lived on while status went back refuses attempts below those it knows.
uint32_t AboveWhatAgentsKnow(const ReconcileContext& context, const Loss& loss) {
  const core::GangStatus* gang = Coordinator(context);
  if (gang == nullptr) return 0;
  uint32_t known = 0;
  for (const auto& seen : gang->machines) {
    if (seen.index == loss.machine->index) known = std::max(known, seen.attempt);
  }
  return IsReachableEpoch(context.snapshot.status, known) ? known + 1 : 0;
}

// After resetAfter of health the budget is whole again.
bool ResetBudget(ReconcileContext& context) {
  const core::GangStatus* status = Coordinator(context);
  if (context.next.counters.infrastructure_used() == 0 || status == nullptr ||
      !IsPhase(*status, core::CoordinatorPhase::kRunning) ||
      !context.snapshot.status.last_failure || !context.snapshot.status.last_failure->time) {
    return false;
  }
  const WallTime due =
      *context.snapshot.status.last_failure->time + context.spec().failure_policy.reset_after;
  if (!context.IsDue(due)) return false;
  context.next.counters.replacements_base = context.next.counters.replacements;
  context.WriteFirst();
  return true;
}

}  // namespace

Loss LossByEnd(const ReconcileContext& context, const Machine& machine) {
  const End end = EndOf(context.snapshot, machine);
  Loss loss{&machine, end.kind, end.what};
  if (end.kind == EndKind::kOvertaken) loss.needs_epoch = end.message->needs_epoch;
  loss.elsewhere = end.kind == EndKind::kRejected;
  if (end.kind == EndKind::kAsked) {
    const std::string moved = WhyMoved(context, machine);
    if (!moved.empty()) loss.what = moved;
  }
  const MachineObservation* last = machine.last_seen;
  if (last == nullptr || !last->end) return loss;
  loss.end = &*last->end;
  loss.payer = end.payer;
  if (loss.payer != Payer::kMachine) loss.likeness = LikenessOf(*loss.end);
  return loss;
}

bool IsBudgetSpent(const ReconcileContext& context) {
  return context.snapshot.status.counters.infrastructure_used() >
             context.spec().failure_policy.max_machine_replacements ||
         AreRestartsSpent(context);
}

bool AreRestartsSpent(const ReconcileContext& context) {
  return context.memory().replacement.of_job && !Runs(context) &&
         context.snapshot.status.counters.application_used() >
             context.spec().failure_policy.max_restarts;
}

bool Replace(ReconcileContext& context) {
  if (Runs(context)) context.StateOf<&PolicyState::replacement>().of_job.reset();
  if (JudgeSilent(context)) return true;
  if (IsBudgetSpent(context)) return false;  // the job ends
  std::vector<Loss> losses = FindLosses(context);
  std::erase_if(losses, [&](const Loss& loss) { return AwaitsReason(context, loss); });
  const auto allowed = static_cast<size_t>(std::max(context.snapshot.replacements_allowed, 0));
  if (losses.size() > allowed) {
    context.note = std::to_string(losses.size() - allowed) +
                   " lost machines wait: the operator limits replacements per minute";
    context.WakeAt(context.now.boot + seconds(5));
    losses.resize(allowed);
  }
  if (losses.empty()) return ResetBudget(context);

  core::JobStatus& next = context.next;
  ++next.epoch;
  for (const Loss& loss : losses) {
    next.epoch = std::max({next.epoch, loss.needs_epoch, AboveWhatAgentsKnow(context, loss)});
  }
  JudgeAlike(context, losses);
  bool rejection_charged = false;
  for (const Loss& loss : losses) {
    next.attempts.Set(static_cast<int>(loss.machine->index), next.epoch);
    if (!IsItsNodes(context, loss)) Charge(context, loss, &rejection_charged);
    NoteSuccessor(context, loss.machine->index, loss.kind == EndKind::kAsked);
    SetBackoff(context, loss);
    if (const MachineObservation* last = loss.machine->last_seen;
        last != nullptr && loss.elsewhere) {
      context.StateOf<&PolicyState::replacement>().refused_by.insert(last->node);
    }
    CountReplacement(next, loss.machine->index);
    Suspect(context, loss);
    if (loss.machine->index == 0) {
      RecordLastReport(context);
      RecordLossOfMachine0(context, CauseOf(loss));
      AccountLossOfMachine0(context, CauseOf(loss));
    }
    if (IsFailure(loss.kind)) {
      next.last_failure =
          FailureRecord(context, FailureOf(loss), context.snapshot.status.gang_generation);
    }
    if (loss.kind == EndKind::kJob) {
      context.StateOf<&PolicyState::replacement>().of_job = next.last_failure->failure;
    }
    context.AddEvent(IsFailure(loss.kind), "MachineReplaced",
                     "machine " + std::to_string(loss.machine->index) + ": " + loss.what +
                         "; attempt " + std::to_string(next.epoch) + " takes its place");
  }
  ObserveAlignment(context);  // of the machines that were refused, before their next attempts
  if (next.timings.started) next.state = core::JobState::kRestarting;
  context.decision.replacements = static_cast<int>(losses.size());
  context.WriteFirst();
  return true;
}

}  // namespace lockstep::control
