// A launcher on machine 0 (mpirun) that has the agents start what it runs on the other machines.
#include <algorithm>
#include <utility>

#include "core/gang/coordinator.h"

namespace lockstep::core {

namespace {

// That have not ended. A launcher has one for each machine.
constexpr size_t kMostRuns = 2 * Members::kMost;

}  // namespace

void Coordinator::Handle(Time, Slot& slot, const Run& run) {
  std::string problem;
  if (run.generation != generation_ || !Live()) {
    problem = "its generation has ended";
  } else if (!config_.launcher() || slot.machine != 0 || run.machine == 0 ||
             run.machine >= roster_.size()) {
    problem = "only the launcher on machine 0 may run something on another machine of its job";
  } else if (runs_.size() >= kMostRuns) {
    problem = "too many commands of the launcher have not ended yet";
  }
  if (!problem.empty()) {
    Send(slot, Ran{run.generation, run.id, run.machine, kExitNeverBegan, std::move(problem)});
    return;
  }
  asked_.insert(run.machine);
  runs_[run.id] = run;
  Send(roster_[run.machine], run);
}

void Coordinator::Handle(Time, Slot& slot, const Ran& ran) {
  const auto run = runs_.find(ran.id);
  if (run == runs_.end() || ran.generation != generation_ || run->second.machine != slot.machine) {
    return;
  }
  runs_.erase(run);
  Send(roster_[0], ran);
}

void Coordinator::AskToRunAgain(const Slot& slot) {
  if (!Live() || slot.report.generation != generation_) return;
  for (const auto& [id, run] : runs_) {
    if (run.machine == slot.machine) Send(slot, run);
  }
}

std::optional<uint32_t> Coordinator::NeverAsked() const {
  if (!config_.launcher()) return std::nullopt;
  for (uint32_t machine = 1; machine < config_.machines; ++machine) {
    if (!asked_.contains(machine)) return machine;
  }
  return std::nullopt;
}

void Coordinator::FailAsSmaller(Time now, uint32_t machine) {
  const std::string name = "machine " + std::to_string(machine);
  FailAsMisconfigured(
      now, static_cast<int>(machine),
      "the launcher on machine 0 ended well, but never ran anything on " + name +
          ": its world was smaller than the job. Most often the command says so (-np, --host, "
          "--hostfile or --map-by of its own): drop these, or name as many processes as the job "
          "has");
  Record().failure = last_failure_;
}

}  // namespace lockstep::core
