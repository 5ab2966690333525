#include "cli/run/local_machines.h"

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
  return std::ranges::any_of(processes_, [](const AgentProcess& process) { return !process.end; });
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

std::vector<control::MachineObservation> LocalMachines::Observe(
    const std::vector<std::string>& addresses) const {
  std::vector<control::MachineObservation> seen;
  for (const AgentProcess& process : processes_) {
    control::MachineObservation& machine = seen.emplace_back();
    machine.name = NameOf(process);
    machine.uid = machine.name;
    machine.machine = static_cast<int32_t>(process.machine);
    machine.attempt = process.attempt;
    machine.created = At(process.started).wall;
    machine.started = machine.created;
    if (process.kill_at) machine.leave_by = At(*process.kill_at).wall;
    machine.stage = control::Stage::kRunning;
    machine.ready = !process.end;
    machine.end = process.end;
    machine.all_ended = process.end.has_value();
    machine.address = addresses[process.machine];
  }
  return seen;
}

}  // namespace lockstep::cli
