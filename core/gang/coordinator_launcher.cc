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
    problem = "only the launcher on machine 0 may run commands on another machine of its job";
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

void Coordinator::OnMpiWorld(int64_t size, int64_t wanted) {
  mpi_world_ = std::max(mpi_world_, size);
  mpi_wanted_ = wanted;
}

std::string Coordinator::SmallerWorld() const {
  if (const std::optional<uint32_t> machine = NeverAsked()) {
    return "ran no command on machine " + std::to_string(*machine);
  }
  if (mpi_world_ == 0 || mpi_world_ >= mpi_wanted_) return "";
  return "its ranks were " + std::to_string(mpi_world_) + " and not " + std::to_string(mpi_wanted_);
}

void Coordinator::FailAsSmaller(Time now, const std::string& how) {
  // The verdict has the record.
  Failure& failure = Record().failure;
  failure.cause = Cause::kConfiguration;
  failure.machine = static_cast<int>(NeverAsked().value_or(0));
  failure.message =
      "the launcher on machine 0 exited with 0, but " + how +
      ": its world was smaller than the job. Most often the command limits it (its own -np, "
      "--host, --hostfile or --map-by): remove these, or name as many processes as the job has";
  FailAsMisconfigured(now, failure.machine, failure.message);
}

}  // namespace lockstep::core
