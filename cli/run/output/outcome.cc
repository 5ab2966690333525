#include "cli/run/output/outcome.h"

#include <sstream>

#include "cli/run/output/history.h"
#include "core/exit_codes.h"

namespace lockstep::cli {

using core::JobState;

core::Failure EndingOf(const core::JobStatus& status) {
  core::Failure failure;
  if (status.state == JobState::kSucceeded) return failure;
  const bool by_deadline = status.verdict && status.verdict->cause == core::Cause::kStopRequested &&
                           !status.verdict->generation.exists();
  if (status.state == JobState::kSuspended || by_deadline) {
    failure.cause = core::Cause::kStopRequested;
    failure.message = status.reason;
  } else if (status.last_failure) {
    failure = status.last_failure->failure;
  }
  return failure;
}

int ExitCodeOf(const core::JobStatus& status, int signal) {
  if (status.state == JobState::kSucceeded) return core::kExitSuccess;
  if (status.state == JobState::kSuspended) return core::kExitSignal + signal;
  return status.verdict ? status.verdict->exit_code : core::kExitFailed;
}

std::string ClosingLine(const std::string& job, const core::JobStatus& status, size_t generations,
                        Duration took) {
  std::string line = "job " + job + " ";
  line += status.state == JobState::kSucceeded   ? "succeeded"
          : status.state == JobState::kSuspended ? "stopped"
                                                 : "failed: " + status.reason;
  line += " (" + std::to_string(generations) +
          (generations == 1 ? " generation, " : " generations, ") + Brief(took) + ")";
  return line;
}

std::vector<std::string> LastWordsLines(const core::Failure& ending) {
  if (ending.stderr_tail.empty()) return {};
  std::vector<std::string> lines = {"last words of the root cause"};
  if (ending.rank >= 0) lines[0] += ", rank " + std::to_string(ending.rank);
  if (ending.machine >= 0) lines[0] += " on machine " + std::to_string(ending.machine);
  lines[0] += ':';
  std::istringstream text(ending.stderr_tail);
  for (std::string line; std::getline(text, line);) lines.push_back("| " + line);
  return lines;
}

}  // namespace lockstep::cli
