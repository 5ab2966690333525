#include "cli/run/machines/local_machines.h"

#include <algorithm>
#include <utility>

namespace lockstep::cli {

std::string LocalMachines::NameOf(const AgentProcess& process) {
  return std::to_string(process.machine) + "-" + std::to_string(process.attempt);
}

AgentProcess* LocalMachines::Running(uint32_t machine) {
  const auto found = std::ranges::find_if(processes_, [&](const AgentProcess& process) {
    return process.machine == machine && !process.end;
  });
  return found == processes_.end() ? nullptr : &*found;
}

bool LocalMachines::IsFree(uint32_t machine) const {
  return std::ranges::none_of(processes_, [&](const AgentProcess& process) {
    return process.machine == machine && !process.end;
  });
}

bool LocalMachines::running() const {
  return std::ranges::any_of(
      processes_, [](const AgentProcess& process) { return process.placed && !process.end; });
}

void LocalMachines::Waits(uint32_t machine, uint32_t attempt, Time at) {
  Started(machine, attempt, at);
  processes_.back().placed = false;
}

std::vector<uint32_t> LocalMachines::Place(const core::Members& unschedulable, Time at) {
  std::vector<uint32_t> placed;
  for (AgentProcess& process : processes_) {
    if (process.placed || process.end || unschedulable.Contains(process.machine)) continue;
    process.placed = true;
    process.started = at;
    placed.push_back(process.machine);
  }
  return placed;
}

void LocalMachines::Started(uint32_t machine, uint32_t attempt, Time at) {
  AgentProcess process;
  process.machine = machine;
  process.attempt = attempt;
  process.started = at;
  processes_.push_back(process);
}

void LocalMachines::Ended(uint32_t machine, control::MachineEnd end) {
  if (AgentProcess* process = Running(machine)) process->end = std::move(end);
}

std::pair<uint32_t, StopSignal> LocalMachines::Stop(const control::StopMachine& action, Time now,
                                                    Duration patience) {
  const auto found = std::ranges::find_if(
      processes_, [&](const AgentProcess& process) { return NameOf(process) == action.name; });
  if (found == processes_.end() || found->kill_at) return {0, StopSignal::kNone};
  found->kill_at = action.grace_seconds ? now : now + patience;
  if (!found->placed) found->end = control::MachineEnd{};
  if (found->end || found->killed) return {found->machine, StopSignal::kNone};
  found->killed = action.grace_seconds.has_value();
  return {found->machine, found->killed ? StopSignal::kKill : StopSignal::kTerminate};
}

std::vector<uint32_t> LocalMachines::Overdue(Time now) {
  std::vector<uint32_t> overdue;
  for (AgentProcess& process : processes_) {
    if (process.end || process.killed || !process.kill_at || now < *process.kill_at) continue;
    process.killed = true;
    overdue.push_back(process.machine);
  }
  return overdue;
}

Time LocalMachines::NextKill() const {
  Time next = kNever;
  for (const AgentProcess& process : processes_) {
    if (!process.end && !process.killed && process.kill_at) next = std::min(next, *process.kill_at);
  }
  return next;
}

bool LocalMachines::ForgetStopped() {
  return std::erase_if(processes_, [](const AgentProcess& process) {
           return process.end && process.kill_at;
         }) > 0;
}

control::MachineObservation LocalMachines::ObserveOne(const AgentProcess& process) const {
  control::MachineObservation seen;
  seen.name = NameOf(process);
  seen.uid = seen.name;
  seen.created = At(process.started).wall;
  if (process.kill_at) seen.leave_by = At(*process.kill_at).wall;
  if (process.placed) {
    seen.started = seen.created;
    seen.stage = control::Stage::kRunning;
    seen.ready = !process.end;
  } else {
    seen.unplaced_because = "it has no place (--unschedulable)";
    seen.place_is_its_own = true;
  }
  seen.end = process.end;
  seen.all_ended = process.end.has_value();
  return seen;
}

std::vector<control::MachineObservation> LocalMachines::Observe(
    const std::vector<MachinePlace>& places) const {
  std::vector<control::MachineObservation> seen;
  for (const AgentProcess& process : processes_) {
    if (process.is_spare()) continue;
    control::MachineObservation& machine = seen.emplace_back(ObserveOne(process));
    machine.machine = static_cast<int32_t>(process.machine);
    machine.attempt = process.attempt;
    machine.address = places[process.machine].address;
    machine.node = places[process.machine].node;
  }
  return seen;
}

// A place of this computer is any place.
std::vector<control::MachineObservation> LocalMachines::ObserveSpares() const {
  std::vector<control::MachineObservation> seen;
  for (const AgentProcess& process : processes_) {
    if (!process.is_spare()) continue;
    control::MachineObservation& spare = seen.emplace_back(ObserveOne(process));
    spare.spare = static_cast<int32_t>(process.machine - kFirstSpare);
    spare.node = "of spare " + std::to_string(spare.spare);
  }
  return seen;
}

}  // namespace lockstep::cli
