#include "cli/run/view.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/gang/bodies.h"

namespace lockstep::cli {
namespace {

TableRow Row(const core::TrainingJob& job, const Snapshot& snapshot, uint32_t index) {
  const Machine& machine = snapshot.machines[index];
  int64_t processes = job.spec.processes_per_machine;
  TableRow row;
  row.machine = index;
  row.first_rank = index * processes;
  row.last_rank = row.first_rank + processes - 1;
  row.state = machine.running ? "Starting" : "Lost";
  if (machine.starts > 1) row.note = "attempt " + std::to_string(machine.attempt);
  if (!snapshot.coordinator) return row;
  for (const auto& seen : snapshot.coordinator->machines) {
    if (seen.index == index && seen.attempt == machine.attempt && machine.running) {
      row.state = ToString(seen.state);
    }
  }
  int64_t started = core::ProcessesStarted(job.spec);
  std::vector<core::RankProgress> ranks;
  for (const core::RankProgress& rank : snapshot.coordinator->progress) {
    if (rank.rank / started == index) ranks.push_back(rank);
  }
  row.progress = core::Summarize(ranks);
  return row;
}

}  // namespace

TableView ViewOf(const core::TrainingJob& job, const Snapshot& snapshot, const History& history,
                 const core::RateMeter& rate, Time now) {
  TableView view;
  view.job = job.metadata.name;
  view.elapsed = now - snapshot.started;
  view.restarts = std::max(static_cast<int>(history.generations().size()) - 1, 0);
  view.state = snapshot.stop ? "Stopping" : "Starting";
  if (snapshot.coordinator) {
    const core::GangStatus& status = *snapshot.coordinator;
    if (!snapshot.stop) view.state = ToString(status.phase);
    if (status.phase != core::GangPhase(core::CoordinatorPhase::kRunning))
      view.reason = status.reason;
    if (status.generation.exists()) view.generation = status.generation.ToString();
    view.progress = core::Summarize(status.progress);
    if (view.progress) {
      view.steps_per_second = rate.steps_per_second();
      view.remaining = rate.Remaining();
    }
  }
  for (uint32_t i = 0; i < snapshot.machines.size(); ++i)
    view.rows.push_back(Row(job, snapshot, i));
  return view;
}

std::string WaitingFor(const Snapshot& snapshot) {
  if (!snapshot.coordinator) return "";
  const core::GangStatus& status = *snapshot.coordinator;
  for (core::CoordinatorPhase phase :
       {core::CoordinatorPhase::kBackoff, core::CoordinatorPhase::kHeld,
        core::CoordinatorPhase::kGathering, core::CoordinatorPhase::kVerdict,
        core::CoordinatorPhase::kDone}) {
    if (status.phase == core::GangPhase(phase)) return status.reason;
  }
  return "";
}

std::string ClosingLine(const core::TrainingJob& job, const Outcome& outcome,
                        const History& history, Duration took) {
  std::string line = "job " + job.metadata.name + " ";
  line += outcome.state == JobState::kSucceeded   ? "succeeded"
          : outcome.state == JobState::kSuspended ? "stopped"
                                                  : "failed";
  if (outcome.state == JobState::kFailed && !outcome.failure.message.empty()) {
    line += ": " + outcome.failure.message;
    if (outcome.reason != outcome.failure.message) line += "; " + outcome.reason;
  }
  size_t generations = history.generations().size();
  line += " (" + std::to_string(generations) +
          (generations == 1 ? " generation, " : " generations, ") + Brief(took) + ")";
  return line;
}

}  // namespace lockstep::cli
