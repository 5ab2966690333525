#include "cli/cluster/why_text.h"

#include <map>
#include <optional>
#include <sstream>
#include <vector>

#include "cli/cluster/job_text.h"
#include "core/failure/causes.h"
#include "core/text/limited_text.h"

namespace lockstep::cli {
namespace {

// "3 ProcessExit, 1 MachineLost", of the generations that the status still lists.
std::string Causes(const std::vector<core::RestartRecord>& history) {
  std::map<std::string, int> counts;
  for (const core::RestartRecord& record : history) ++counts[core::ToString(record.cause)];
  std::string text;
  for (const auto& [cause, count] : counts) {
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + cause;
  }
  return text;
}

void AddRootCause(const core::LastFailure& last, std::string* out) {
  const core::Failure& failure = last.failure;
  *out += std::string("root cause: ") + core::ToString(failure.cause);
  if (failure.rank >= 0) *out += ", rank " + std::to_string(failure.rank);
  if (failure.machine >= 0) *out += ", machine " + std::to_string(failure.machine);
  if (!last.node.empty()) *out += ", node " + core::OneLine(last.node);
  if (failure.exit_code >= 0) *out += ", exit code " + std::to_string(failure.exit_code);
  if (failure.signal > 0) *out += ", signal " + std::to_string(failure.signal);
  if (last.generation.exists()) *out += ", generation " + last.generation.ToString();
  if (last.time) *out += ", at " + FormatWallTime(*last.time);
  *out += "\n";
  if (!failure.message.empty()) *out += "message: " + core::OneLine(failure.message) + "\n";
  if (!failure.stderr_tail.empty()) *out += "its last lines:\n";
  std::istringstream lines(core::Printable(failure.stderr_tail));
  for (std::string line; std::getline(lines, line);) *out += "| " + line + "\n";
}

void AddAdvice(core::Cause cause, std::string* out) {
  const core::CauseRow& row = core::RowOf(cause);
  if (*row.meaning == '\0') return;
  *out += std::string("meaning: ") + row.meaning + "\nto do: " + row.to_do + "\n";
}

void AddCommands(const StoredJob& job, int rank, const std::string& options, std::string* out) {
  const std::string tail = job.meta.name + (options.empty() ? "" : " " + options);
  const std::string of_rank = rank < 0 ? "" : " --rank " + std::to_string(rank);
  *out += "look further: lockstep logs " + tail + of_rank + " --tail 200\n";
  if (!HasEnded(job.status)) *out += "              lockstep debug " + tail + of_rank + "\n";
}

}  // namespace

std::string WhyText(const StoredJob& job, const std::string& options) {
  const core::JobStatus& status = job.status;
  std::string out = TitleOf(job) + ": " + core::ToString(status.state);
  if (!status.reason.empty()) out += ": " + core::OneLine(status.reason);
  out += "\n";
  const std::optional<core::LastFailure>& last = status.last_failure;
  if (!last) {
    out += "It has had no failure.\n";
    if (!HasEnded(status)) AddCommands(job, -1, options, &out);
    return out;
  }
  AddRootCause(*last, &out);
  const core::Cause verdict = status.verdict ? status.verdict->cause : core::Cause::kNone;
  AddAdvice(last->failure.cause, &out);
  if (verdict != last->failure.cause) AddAdvice(verdict, &out);
  if (status.verdict) {
    out += "verdict: exit code " + std::to_string(status.verdict->exit_code);
    if (verdict != core::Cause::kNone) out += std::string(", ") + core::ToString(verdict);
    out += "\n";
  }
  out += "budget used: " + BudgetOf(job) + "\n";
  const std::string causes = Causes(status.history);
  if (!causes.empty()) out += "generations that ended: " + causes + "\n";
  AddCommands(job, last->failure.rank, options, &out);
  return out;
}

}  // namespace lockstep::cli
