#include "operator/policy/facts/machines.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "base/text/ascii.h"
#include "core/exit_codes.h"
#include "core/gang/status/outcome.h"
#include "core/model/shortcuts.h"
#include "core/text/limited_text.h"
#include "operator/policy/facts/rules.h"

namespace lockstep::control {
namespace {

bool Existed(const AttemptsState& memory, const MachineAttempt& attempt) {
  const auto known = memory.attempts.find(attempt);
  return known != memory.attempts.end() && known->second.existed;
}

Life LifeOf(const Snapshot& snapshot, const Machine& machine) {
  const std::optional<core::ElasticStatus>& elastic = snapshot.status.elastic;
  const bool without_quota = elastic && elastic->without_quota.Contains(machine.index);
  if (machine.attempt == 0 || without_quota) return Life::kNone;
  if (machine.seen == nullptr) {
    const MachineAttempt attempt{machine.index, machine.attempt};
    const bool made = machine.attempt <= snapshot.status.created_epoch ||
                      Existed(snapshot.memory.attempts, attempt) ||
                      snapshot.notes.made.contains(attempt) ||
                      snapshot.notes.vanished.contains(attempt);
    return made ? Life::kGone : Life::kToCreate;
  }
  const MachineObservation& seen = *machine.seen;
  if (seen.over()) return Life::kEnded;
  if (seen.node_state >= NodeState::kOutOfService) return Life::kGone;
  if (seen.stage == Stage::kRunning) return Life::kRunning;
  return seen.stage == Stage::kPlaced ? Life::kWaiting : Life::kPending;
}

// Nodes of replaced attempts that do not leave. These nodes are probably dead, but a scheduler
// sends pods there until Kubernetes notices.
std::set<std::string_view> NodesOfTheDead(const std::vector<Machine>& machines) {
  std::set<std::string_view> nodes;
  for (const Machine& machine : machines) {
    for (const MachineObservation* seen : machine.earlier) {
      if (!seen->over() && !seen->node.empty()) nodes.insert(seen->node);
    }
  }
  return nodes;
}

const core::GangStatus* LastOfMachine0(const Snapshot& snapshot) {
  return snapshot.coordinator ? &snapshot.coordinator->status : nullptr;
}

uint32_t Machine0Attempt(const Snapshot& snapshot) {
  return static_cast<uint32_t>(snapshot.status.attempts.Of(0));
}

std::string Where(const MachineObservation& seen) {
  return seen.node.empty() ? "" : " on node " + seen.node;
}

std::string HowItEnded(const MachineEnd& end) {
  if (end.signal > 0) return "was killed by signal " + std::to_string(end.signal);
  std::string text = end.exit_code < 0 ? "cannot be reached any more"
                                       : "exited with code " + std::to_string(end.exit_code);
  if (!end.reason.empty()) text += " (" + end.reason + ")";
  return text;
}

// A pod that is deleted ends its containers by signals, those that run before the agent as well.
bool EndedByDeletion(const MachineObservation& seen) {
  const MachineEnd& end = *seen.end;
  const bool by_signal = end.exit_code > core::kExitSignal || end.signal > 0;
  return seen.leave_by.has_value() && !end.container.empty() && by_signal;
}

// The end of a container's log matters most, and the beginning of kubelet's sentences. The limit
// leaves room for the text around them in status.
std::string Quoted(const MachineEnd& end) {
  constexpr size_t kLongest = 180;
  if (end.message.empty()) return "";
  const std::string text(Trim(core::OneLine(end.message)));
  return ": " + (end.container.empty() ? core::FirstBytes(text, kLongest)
                                       : core::LastBytes(text, kLongest));
}

std::string WithoutItsAgent(const MachineObservation& seen) {
  const MachineEnd& end = *seen.end;
  std::string what;
  if (end.container.empty()) {
    what = "its pod failed" + Where(seen);
    if (!end.reason.empty()) what += ": " + end.reason;
  } else {
    what = "its " + ContainerText(end.container) + " " + HowItEnded(end) + Where(seen);
  }
  return what + Quoted(end);
}

End EndAsAWhole(const MachineObservation& seen) {
  End end;
  end.what = WithoutItsAgent(seen);
  end.payer = seen.end->payer;
  if (seen.end->rejected) end.kind = EndKind::kRejected;
  if (end.payer == Payer::kJob) end.kind = EndKind::kJob;
  if (seen.end->out_of_memory) end.kind = EndKind::kOutOfMemory;
  if (seen.end->asked) end.kind = EndKind::kAsked;
  if (EndedByDeletion(seen)) {
    end.kind = EndKind::kAsked;
    end.payer = Payer::kMachine;
  }
  return end;
}

// 143 means that the agent got SIGTERM from any sender; its ranks can send one too.
bool WasAsked(const MachineObservation& seen) {
  if (seen.end->asked) return true;
  const bool evidence = seen.leave_by.has_value() || !Holds(Rule::kAskedNeedsEvidence);
  return evidence && seen.end->exit_code == core::kExitStopped;
}

std::optional<core::Termination> OutcomeOf(const Snapshot& snapshot, const Machine& machine) {
  core::AgentEnd end{.machine = machine.index, .attempt = machine.attempt};
  const MachineObservation* last = machine.last_seen;
  if (last != nullptr && last->over() && last->end->agent_ran) {
    end.message = last->end->termination;
    if (last->end->exit_code >= 0) end.exit_code = last->end->exit_code;
  }
  return core::OutcomeOf(end, LastOfMachine0(snapshot), Machine0Attempt(snapshot));
}

End EndOfAgent(const Snapshot& snapshot, const Machine& machine) {
  const MachineObservation& seen = *machine.last_seen;
  const MachineEnd& ended = *seen.end;
  End end;
  end.what = "its agent " + HowItEnded(ended) + Where(seen);
  if (Result<core::Termination> message = core::ParseTermination(ended.termination); message.ok()) {
    end.message = std::move(*message);
  }
  if (ended.out_of_memory) {
    end.kind = EndKind::kOutOfMemory;
    end.what = "its container went over its memory limit" + Where(seen);
  } else if (ended.payer == Payer::kJob) {
    return EndAsAWhole(seen);
  } else if (WasAsked(seen)) {
    end.kind = EndKind::kAsked;
    end.payer = ended.payer;
    end.what = "it was asked to leave" + Where(seen);
    if (!ended.asked_for.empty()) end.what += " (" + ended.asked_for + ")";
    end.what += Quoted(ended);
  } else if (end.message && end.message->machine == 0 &&
             IsReachableEpoch(snapshot.status, end.message->needs_epoch)) {
    end.kind = EndKind::kOvertaken;
    end.what = "status has gone back, as when an etcd is restored: " + end.message->reason +
               ", so the epoch goes to " + std::to_string(end.message->needs_epoch);
  } else if (end.message && end.message->verdict) {
    end.kind = EndKind::kAsked;
    end.what = "its agent exited with an outdated verdict" + Where(seen);
  } else if (ended.exit_code == core::kExitConfiguration) {
    end.kind = EndKind::kConfiguration;
    if (!ended.termination.empty() && !end.message) end.what += ": " + ended.termination;
  } else if (ended.exit_code == core::kExitStopped) {
    end.what +=
        ": a process in its container sent it SIGTERM, and the machine was not asked to leave";
  }
  return end;
}

}  // namespace

std::string ContainerText(const std::string& name) {
  return (name == core::kWorkerContainer ? "container " : "init container ") + name;
}

bool IsReachableEpoch(const core::JobStatus& status, uint32_t epoch) {
  constexpr uint32_t kFurthest = 10'000;  // each costs a machine
  return epoch > status.epoch && epoch - status.epoch <= kFurthest;
}

std::vector<Machine> Machines(const Snapshot& snapshot) {
  const core::MachineAttempts& attempts = snapshot.status.attempts;
  std::vector<Machine> machines(static_cast<size_t>(attempts.size()));
  for (size_t i = 0; i < machines.size(); ++i) {
    machines[i].index = static_cast<uint32_t>(i);
    machines[i].attempt = attempts.Of(static_cast<int>(i));
  }
  for (const MachineObservation& seen : snapshot.machines) {
    if (seen.machine < 0 || static_cast<size_t>(seen.machine) >= machines.size()) continue;
    Machine& machine = machines[static_cast<size_t>(seen.machine)];
    if (seen.attempt == machine.attempt) {
      machine.seen = &seen;
    } else if (seen.attempt < machine.attempt) {
      machine.earlier.push_back(&seen);
    }
  }
  const std::set<std::string_view> dead = NodesOfTheDead(machines);
  for (Machine& machine : machines) {
    machine.life = LifeOf(snapshot, machine);
    machine.sent_to_its_dead = machine.life == Life::kWaiting && dead.contains(machine.seen->node);
    machine.last_seen = machine.seen;
    const auto vanished = snapshot.notes.vanished.find({machine.index, machine.attempt});
    if (machine.seen == nullptr && vanished != snapshot.notes.vanished.end()) {
      machine.last_seen = &vanished->second;
    }
  }
  return machines;
}

const core::GangStatus::MachineStatus* ReportOf(const core::GangStatus& status,
                                                const Machine& machine) {
  const auto told = std::ranges::lower_bound(status.machines, machine.index, {},
                                             &core::GangStatus::MachineStatus::index);
  if (told == status.machines.end() || told->index != machine.index) return nullptr;
  return told->attempt == machine.attempt ? &*told : nullptr;
}

std::vector<const MachineObservation*> Leftovers(const Snapshot& snapshot) {
  std::vector<const MachineObservation*> leftovers;
  for (const MachineObservation& seen : snapshot.machines) {
    // After another leader's decisions, the observed machines may be ahead of the status.
    if (seen.attempt > snapshot.status.epoch) continue;
    const bool is_machine = seen.machine >= 0 && seen.machine < snapshot.status.attempts.size();
    // A status with this epoch that never ordered the attempt has gone back since the order.
    if (!is_machine || seen.attempt > snapshot.status.attempts.Of(seen.machine)) {
      leftovers.push_back(&seen);
    }
  }
  return leftovers;
}

bool PredecessorsDead(const AttemptsState& memory, const Machine& machine) {
  if (machine.attempt <= 1 || !Holds(Rule::kPredecessorsSeenDead)) return true;
  if (!memory.from_the_beginning && !memory.accounted.contains(machine.index)) return false;
  const auto begin = memory.attempts.lower_bound({machine.index, 0});
  const auto end = memory.attempts.lower_bound({machine.index, machine.attempt});
  return std::all_of(begin, end, [](const auto& each) { return each.second.over; });
}

std::optional<core::Termination> VerdictHeard(const Snapshot& snapshot) {
  return core::VerdictHeard(LastOfMachine0(snapshot), Machine0Attempt(snapshot));
}

End EndOf(const Snapshot& snapshot, const Machine& machine) {
  End end;
  end.message = OutcomeOf(snapshot, machine);
  if (end.message) {
    end.kind = EndKind::kVerdict;
    return end;
  }
  const MachineObservation* last = machine.last_seen;
  if (last != nullptr && last->over()) {
    end = last->end->agent_ran ? EndOfAgent(snapshot, machine) : EndAsAWhole(*last);
  } else if (machine.seen == nullptr) {
    end.what = "its pod was deleted";
  } else {
    const bool gone = machine.seen->node_state == NodeState::kGone;
    end.what = "its node " + machine.seen->node + (gone ? " is gone" : " is out of service");
  }
  // A deletion with a grace period asks only for that.
  const bool asked = machine.seen == nullptr && last != nullptr && last->leave_by.has_value();
  if (asked && end.kind == EndKind::kLost) end.kind = EndKind::kAsked;
  return end;
}

}  // namespace lockstep::control
