#include "cli/run/view.h"

#include <algorithm>

namespace lockstep::cli {
namespace {

TableRow Row(const core::TrainingJob& job, const Shown& shown, uint32_t index) {
  const ShownMachine& machine = shown.machines[index];
  int64_t processes = job.spec.processes_per_machine;
  TableRow row;
  row.machine = index;
  row.first_rank = index * processes;
  row.last_rank = row.first_rank + processes - 1;
  row.state = machine.running ? "Starting" : "Lost";
  if (machine.replaced) row.note = "attempt " + std::to_string(machine.attempt);
  if (!shown.gang) return row;
  for (const auto& seen : shown.gang->machines) {
    if (seen.index == index && seen.attempt == machine.attempt && machine.running) {
      row.state = ToString(seen.state);
    }
  }
  int64_t started = core::ProcessesStarted(job.spec);
  std::vector<core::RankProgress> ranks;
  for (const core::RankProgress& rank : shown.gang->progress) {
    if (rank.rank / started == index) ranks.push_back(rank);
  }
  row.progress = core::Summarize(ranks);
  return row;
}

}  // namespace

TableView ViewOf(const core::TrainingJob& job, const Shown& shown, const History& history,
                 const core::RateMeter& rate, Time now) {
  TableView view;
  view.job = job.metadata.name;
  view.elapsed = now - shown.started;
  view.restarts = std::max(static_cast<int>(history.generations().size()) - 1, 0);
  view.state = shown.stopping ? "Stopping" : "Starting";
  if (shown.gang) {
    const core::GangStatus& status = *shown.gang;
    if (!shown.stopping) view.state = ToString(status.phase);
    if (status.phase != core::GangPhase(core::CoordinatorPhase::kRunning))
      view.reason = status.reason;
    if (status.generation.exists()) view.generation = status.generation.ToString();
    view.progress = core::Summarize(status.progress);
    if (view.progress) {
      view.steps_per_second = rate.steps_per_second();
      view.remaining = rate.Remaining();
    }
  }
  for (uint32_t i = 0; i < shown.machines.size(); ++i) view.rows.push_back(Row(job, shown, i));
  return view;
}

std::string WaitingFor(const std::optional<core::GangStatus>& gang) {
  if (!gang) return "";
  const core::GangStatus& status = *gang;
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
  line += outcome.state == core::JobState::kSucceeded   ? "succeeded"
          : outcome.state == core::JobState::kSuspended ? "stopped"
                                                        : "failed: " + outcome.reason;
  size_t generations = history.generations().size();
  line += " (" + std::to_string(generations) +
          (generations == 1 ? " generation, " : " generations, ") + Brief(took) + ")";
  return line;
}

}  // namespace lockstep::cli
