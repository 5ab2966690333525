#include "core/gang/coordinator/launcher_runs.h"

#include <algorithm>
#include <utility>

namespace lockstep::core {

namespace {

// That have not ended. A launcher has one for each machine.
constexpr size_t kMostRuns = 2 * Members::kMost;

}  // namespace

void LauncherRuns::Begin() {
  runs_.clear();
  asked_.clear();
  world_ = 0;
}

void LauncherRuns::OnRun(const Roster::Slot& from, const Run& run, bool live) {
  std::string problem;
  if (!live) {
    problem = "its generation has ended";
  } else if (!launcher_ || from.machine != 0 || run.machine == 0 || run.machine >= roster_.size()) {
    problem = "only the launcher on machine 0 may run commands on another machine of its job";
  } else if (runs_.size() >= kMostRuns) {
    problem = "too many commands of the launcher have not ended yet";
  }
  if (!problem.empty()) {
    outbox_.Send(from, Ran{run.generation, run.id, run.machine, kExitNeverBegan, problem});
    return;
  }
  asked_.insert(run.machine);
  runs_[run.id] = run;
  outbox_.Send(roster_[run.machine], run);
}

void LauncherRuns::OnRan(uint32_t machine, const Ran& ran) {
  const auto run = runs_.find(ran.id);
  if (run == runs_.end() || run->second.generation != ran.generation ||
      run->second.machine != machine) {
    return;
  }
  runs_.erase(run);
  outbox_.Send(roster_[0], ran);
}

void LauncherRuns::AskAgain(const Roster::Slot& slot) {
  for (const auto& [id, run] : runs_) {
    if (run.machine == slot.machine) outbox_.Send(slot, run);
  }
}

void LauncherRuns::OnWorld(int64_t size, int64_t wanted) {
  world_ = std::max(world_, size);
  wanted_ = wanted;
}

std::optional<uint32_t> LauncherRuns::NeverAsked() const {
  if (!launcher_) return std::nullopt;
  for (uint32_t machine = 1; machine < roster_.size(); ++machine) {
    if (!asked_.contains(machine)) return machine;
  }
  return std::nullopt;
}

std::string LauncherRuns::SmallerWorld() const {
  if (const std::optional<uint32_t> machine = NeverAsked()) {
    return "ran no command on machine " + std::to_string(*machine);
  }
  if (world_ == 0 || world_ >= wanted_) return "";
  return "its ranks were " + std::to_string(world_) + " and not " + std::to_string(wanted_);
}

}  // namespace lockstep::core
