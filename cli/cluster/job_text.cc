#include "cli/cluster/job_text.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <sstream>
#include <utility>

#include "base/text/columns.h"
#include "cli/job/plan_text.h"
#include "cli/run/output/history.h"
#include "cli/run/output/ledger_text.h"
#include "cli/run/output/preflight_text.h"
#include "cli/run/output/prestart_text.h"
#include "cli/run/output/usage_text.h"
#include "core/model/spec.h"
#include "core/text/limited_text.h"

namespace lockstep::cli {
namespace {

using Row = std::vector<std::string>;

constexpr const char* kNone = "-";

std::string OrNone(const std::string& text) { return text.empty() ? kNone : core::OneLine(text); }

std::string Count(int64_t count, const std::string& one, const std::string& many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

std::string Since(std::optional<WallTime> from, std::optional<WallTime> to) {
  if (!from || !to) return kNone;
  return Brief(std::max(Duration(0), *to - *from));
}

// In whole seconds at least.
std::string AgeOf(const StoredJob& job, WallTime now) {
  const Duration age = std::max(Duration(0), now - job.meta.created);
  if (age >= minutes(1)) return Brief(age);
  return std::to_string(age / seconds(1)) + " s";
}

std::string When(std::optional<WallTime> at) { return at ? FormatWallTime(*at) : kNone; }

std::string RanksOf(const StoredJob& job, int machine) {
  const int64_t processes = job.job.spec.processes_per_machine;
  int64_t place = machine;
  if (const std::optional<core::ElasticStatus>& elastic = job.status.elastic) {
    if (!elastic->members.Contains(static_cast<uint32_t>(machine))) return kNone;
    place = elastic->members.PlaceOf(static_cast<uint32_t>(machine));
  }
  const int64_t first = place * processes;
  if (processes == 1) return std::to_string(first);
  return std::to_string(first) + "-" + std::to_string(first + processes - 1);
}

std::string ByState(const core::MachineCounts& machines) {
  std::string text;
  for (const auto& [state, count] : machines.by_state) {
    if (count == 0) continue;
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + core::ToString(state);
  }
  return text;
}

std::string ProgressOf(const core::JobStatus& status) {
  if (!status.progress) return OrNone(status.progress_text);
  std::string text = core::OneLine(status.progress_text);
  if (text.empty()) text = "step " + std::to_string(status.progress->step);
  if (status.progress->source == "Output") text += " (read from its output)";
  for (const core::ProgressMetric& metric : status.progress->metrics) {
    text += ", " + core::OneLine(metric.name) + " " + core::OneLine(metric.value);
  }
  return text;
}

std::string RestartsOf(const core::RestartCounts& restarts) {
  std::string text = std::to_string(restarts.total);
  if (restarts.total == 0) return text;
  return text + " (" + std::to_string(restarts.application) + " application, " +
         std::to_string(restarts.infrastructure) + " infrastructure, " +
         std::to_string(restarts.stopped) + " stopped)";
}

void AddFacts(const StoredJob& job, WallTime now, std::string* out) {
  const core::JobStatus& status = job.status;
  const core::Spec& spec = job.job.spec;
  const int machines = MachinesOf(job);
  std::vector<Row> facts = {
      {"State", std::string(core::ToString(status.state)) + (job.meta.deleted ? ", deleted" : "")}};
  if (!status.reason.empty()) facts.push_back({"Reason", core::OneLine(status.reason)});
  std::string size = Count(machines, "machine", "machines") + " x " +
                     Count(spec.processes_per_machine, "process", "processes") + " = world size " +
                     std::to_string(machines * spec.processes_per_machine);
  if (machines != spec.num_machines) size += ", on its way to " + std::to_string(spec.num_machines);
  facts.push_back({"Size", size});
  facts.push_back({"Ready", OrNone(status.ready)});
  const std::string states = ByState(status.machines);
  if (!states.empty()) facts.back().back() += " (" + states + ")";
  if (spec.spare_machines > 0) {
    facts.back().back() += ", " + std::to_string(status.machines.spares) + "/" +
                           Count(spec.spare_machines, "spare", "spares");
  }
  facts.push_back({"Progress", ProgressOf(status)});
  facts.push_back(
      {"Generation", status.gang_generation.exists() ? status.gang_generation.ToString() : kNone});
  facts.push_back({"Restarts", RestartsOf(status.restarts)});
  facts.push_back({"Budget used", BudgetOf(job)});
  facts.push_back({"Age", AgeOf(job, now)});
  if (status.verdict) {
    facts.push_back({"Verdict", "exit code " + std::to_string(status.verdict->exit_code)});
    if (status.verdict->cause != core::Cause::kNone) {
      facts.back().back() += std::string(", ") + core::ToString(status.verdict->cause);
    }
  }
  *out += AlignColumns(facts, "  ");
}

void AddPhases(const StoredJob& job, WallTime now, std::string* out) {
  const core::Timings& timings = job.status.timings;
  const std::vector<std::pair<const char*, std::optional<WallTime>>> phases = {
      {"created", timings.created ? timings.created : job.meta.created},
      {"scheduled", timings.scheduled},
      {"started", timings.started},
      {"first step", timings.first_step},
      {"finished", timings.finished}};
  std::vector<Row> rows = {{"PHASE", "AT", "AFTER"}};
  std::optional<WallTime> last;
  for (const auto& [name, at] : phases) {
    if (!at) continue;
    rows.push_back({name, When(at), Since(last, at)});
    last = at;
  }
  if (!timings.finished) rows.push_back({"now", When(now), Since(last, now)});
  *out += "\n" + AlignColumns(rows, "  ");
}

void AddMachines(const StoredJob& job, std::string* out) {
  std::vector<core::MachineStatus> machines = job.status.machine_statuses;
  if (machines.empty()) return;
  std::sort(machines.begin(), machines.end(),
            [](const auto& a, const auto& b) { return a.index < b.index; });
  std::vector<Row> rows = {{"MACHINE", "RANKS", "STATE", "POD", "NODE", "REPLACED", "BINDING"}};
  const bool used = std::ranges::any_of(
      machines, [](const core::MachineStatus& machine) { return machine.usage.has_value(); });
  if (used) std::ranges::copy(kUsageHeads, std::back_inserter(rows.front()));
  for (const core::MachineStatus& machine : machines) {
    rows.push_back({std::to_string(machine.index), RanksOf(job, machine.index),
                    std::string(core::ToString(machine.state)), OrNone(machine.pod),
                    OrNone(machine.node), std::to_string(machine.replacements),
                    OrNone(machine.binding)});
    if (used) std::ranges::copy(UsageCells(machine.usage), std::back_inserter(rows.back()));
  }
  *out += "\n" + AlignColumns(rows, "  ");
  const auto left = job.status.machines.desired - static_cast<int64_t>(machines.size());
  if (left > 0) *out += "  and " + Count(left, "machine", "machines") + " in no worse state\n";
}

void AddFailure(const core::LastFailure& last, std::string* out) {
  const core::Failure& failure = last.failure;
  *out += std::string("\n  LAST FAILURE  ") + core::ToString(failure.cause);
  if (last.time) *out += " at " + When(last.time);
  if (last.generation.exists()) *out += ", generation " + last.generation.ToString();
  if (!last.node.empty()) *out += ", node " + core::OneLine(last.node);
  *out += "\n";
  if (!failure.message.empty()) *out += "  " + core::OneLine(failure.message) + "\n";
  std::istringstream lines(core::Printable(failure.stderr_tail));
  for (std::string line; std::getline(lines, line);) *out += "  | " + line + "\n";
}

void AddHistory(const std::vector<core::RestartRecord>& history, std::string* out) {
  if (history.empty()) return;
  std::vector<Row> rows = {
      {"ENDED", "CAUSE", "MACHINE", "DETECTED", "RESPAWNED", "FIRST STEP", "LOST STEPS"}};
  for (const core::RestartRecord& record : history) {
    const auto after = [&](std::optional<WallTime> at) {
      const std::string took = Since(record.detected, at);
      return took == kNone ? took : "after " + took;
    };
    rows.push_back({record.generation.ToString(), core::ToString(record.cause),
                    record.machine < 0 ? kNone : std::to_string(record.machine),
                    When(record.detected), after(record.respawned), after(record.first_step),
                    record.lost_steps ? std::to_string(*record.lost_steps) : kNone});
  }
  *out += "\n" + AlignColumns(rows, "  ");
}

}  // namespace

std::string TitleOf(const StoredJob& job) {
  if (job.meta.name_space.empty()) return "run " + job.meta.name + " on this computer";
  return "trainingjob " + job.meta.name + " in namespace " + job.meta.name_space;
}

std::string BudgetOf(const StoredJob& job) {
  const core::Counters& used = job.status.counters;
  const core::FailurePolicy& policy = job.job.spec.failure_policy;
  const auto restarts = int64_t{used.process_failures} - used.process_failures_base +
                        used.out_of_memory - used.out_of_memory_base;
  const auto replacements = int64_t{used.replacements} - used.replacements_base;
  return std::to_string(std::min<int64_t>(restarts, policy.max_restarts)) + " of " +
         Count(policy.max_restarts, "restart", "restarts") + ", " +
         std::to_string(std::min<int64_t>(replacements, policy.max_machine_replacements)) + " of " +
         Count(policy.max_machine_replacements, "machine replacement", "machine replacements");
}

std::string StatusText(const StoredJob& job, WallTime now) {
  std::string out = TitleOf(job) + "\n";
  AddFacts(job, now, &out);
  AddPhases(job, now, &out);
  AddMachines(job, &out);
  if (job.status.last_failure) AddFailure(*job.status.last_failure, &out);
  AddHistory(job.status.history, &out);
  const std::string prestart = PrestartLine(job.status);
  const std::vector<std::string> preflight = PreflightLines(job.status);
  const std::vector<std::string> ledger = LedgerLines(job.status, now);
  if (!ledger.empty() || !prestart.empty() || !preflight.empty()) out += "\n";
  for (const std::string& line : preflight) out += "  " + line + "\n";
  if (!prestart.empty()) out += "  " + core::OneLine(prestart) + "\n";
  for (const std::string& line : ledger) out += "  " + line + "\n";
  return out;
}

std::string StatusLine(const StoredJob& job) {
  const core::JobStatus& status = job.status;
  std::string line = job.meta.name + "  " + std::string(core::ToString(status.state));
  if (!status.ready.empty()) line += "  " + core::OneLine(status.ready) + " ready";
  if (status.gang_generation.exists()) line += "  generation " + status.gang_generation.ToString();
  if (status.restarts.total > 0) line += "  restarts " + std::to_string(status.restarts.total);
  if (!status.progress_text.empty()) line += "  " + core::OneLine(status.progress_text);
  if (!status.reason.empty()) line += "  (" + core::OneLine(status.reason) + ")";
  return line;
}

std::string ListText(const std::vector<StoredJob>& jobs, ListColumns columns, WallTime now) {
  Row head = {"NAME", "STATE", "READY", "PROCESSES", "RESTARTS", "PROGRESS", "AGE"};
  if (columns.name_space) head.insert(head.begin(), "NAMESPACE");
  if (columns.wide) head.insert(head.end(), {"GENERATION", "REASON"});
  std::vector<Row> rows = {std::move(head)};
  for (const StoredJob& job : jobs) {
    const core::JobStatus& status = job.status;
    Row row = {job.meta.name,
               std::string(core::ToString(status.state)),
               OrNone(status.ready),
               std::to_string(MachinesOf(job) * job.job.spec.processes_per_machine),
               std::to_string(status.restarts.total),
               OrNone(status.progress_text),
               AgeOf(job, now)};
    if (columns.name_space) row.insert(row.begin(), job.meta.name_space);
    if (columns.wide) {
      row.push_back(status.gang_generation.exists() ? status.gang_generation.ToString() : kNone);
      row.push_back(OrNone(status.reason));
    }
    rows.push_back(std::move(row));
  }
  return AlignColumns(rows, "");
}

}  // namespace lockstep::cli
