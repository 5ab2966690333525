#include "cli/cluster/why_text.h"

#include <map>
#include <optional>
#include <sstream>
#include <vector>

#include "cli/cluster/job_text.h"
#include "core/text/limited_text.h"

namespace lockstep::cli {
namespace {

struct Advice {
  const char* meaning;
  const char* to_do;
};

Advice AdviceOn(core::Cause cause) {
  using core::Cause;
  switch (cause) {
    case Cause::kNone:
      break;
    case Cause::kProcessExit:
      return {"The program ended itself with an error. The other ranks were stopped because of it.",
              "Read the rank's last lines and correct the program."};
    case Cause::kProcessSignal:
      return {"A signal killed the process: a crash, or somebody's kill.",
              "SIGSEGV, SIGABRT and SIGBUS are crashes of native code; SIGKILL is often a memory "
              "limit outside of the container."};
    case Cause::kCommandNotFound:
      return {"The job's command could not be started.",
              "Correct spec.command, spec.workingDir or the image. A restart would not help."};
    case Cause::kOutOfMemory:
      return {"The container or a rank needed more memory than its limit.",
              "Raise the memory limit, or use smaller batches, fewer data workers or sharding."};
    case Cause::kEarlyCrash:
      return {"The same rank failed in the same way twice, soon after its start.",
              "The failure is in the program or its input, so restarts would not help. Read the "
              "rank's last lines."};
    case Cause::kHang:
      return {"No rank reported progress for spec.health.hangTimeout.",
              "The message names the rank that the others waited for. Look at its stacks if it "
              "hangs again, or raise hangTimeout if steps take that long."};
    case Cause::kMachineLost:
      return {
          "A machine fell silent, or its agent is gone: a node failure, an eviction or a "
          "deleted pod.",
          "Nothing, if it is rare: the machine was replaced. Else check the node's events."};
    case Cause::kLeaseExpired:
      return {
          "The machines lost contact for longer than failurePolicy.machineLostAfter, and all "
          "came back.",
          "Check the network and whether nodes are overloaded."};
    case Cause::kUnkillable:
      return {"A process did not die within 30 s of SIGKILL.",
              "It waits in the kernel, often for a file system or a GPU driver. Check the node."};
    case Cause::kConfiguration:
      return {"The job cannot run as it is written.",
              "Correct what the message names, and submit the job again."};
    case Cause::kRestartsExhausted:
      return {"The job failed more often than its budget allows.",
              "Read the failure that used up the budget; raise failurePolicy.maxRestarts only if "
              "such failures are expected."};
    case Cause::kStopRequested:
      return {"Somebody or something asked for the stop: suspend, restart, scale, a deadline.",
              "Nothing: it is charged to no budget."};
  }
  return {"", ""};
}

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
  const Advice advice = AdviceOn(cause);
  if (*advice.meaning == '\0') return;
  *out += std::string("meaning: ") + advice.meaning + "\nto do: " + advice.to_do + "\n";
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
