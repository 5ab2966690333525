#include "core/gang/status/outcome.h"

#include <string>
#include <utility>

#include "core/exit_codes.h"

namespace lockstep::core {
namespace {

// The exit codes of an agent that only a verdict gives.
bool IsVerdict(int exit_code) {
  return exit_code == kExitSuccess || exit_code == kExitFailed || exit_code == kExitHang;
}

// An agent that was started before this machine 0 may have the verdict of an earlier one.
bool KnowsNoEarlierGang(const AgentEnd& end, uint32_t machine0_attempt) {
  return end.attempt >= machine0_attempt;
}

Termination FromExitCode(const AgentEnd& end, const GangStatus* last, uint32_t machine0_attempt) {
  Termination told;
  told.exit_code = *end.exit_code;
  told.machine = end.machine;
  told.attempt = end.attempt;
  told.verdict = true;
  told.generation = {machine0_attempt, 0};
  const bool current = last != nullptr && last->coordinator && last->attempt == machine0_attempt;
  if (current && last->generation > told.generation) told.generation = last->generation;
  told.reason = "the agent of machine " + std::to_string(end.machine) + " exited with code " +
                std::to_string(told.exit_code) +
                " and left no message: check whether its file system is full";
  if (told.exit_code == kExitSuccess) return told;
  told.failure.cause = told.exit_code == kExitHang ? Cause::kHang : Cause::kProcessExit;
  told.failure.message = "the job failed, and which rank failed first is not known";
  if (current && !last->last_failure.message.empty()) {
    told.failure.message += "; the failure before: " + last->last_failure.message;
  }
  return told;
}

}  // namespace

std::optional<Termination> VerdictHeard(const GangStatus* last, uint32_t machine0_attempt) {
  const bool current = last != nullptr && last->coordinator && last->attempt == machine0_attempt;
  if (!current || !last->verdict) return std::nullopt;
  Termination told;
  told.exit_code = static_cast<int>(last->verdict->exit_code);
  told.generation = last->verdict->generation;
  told.attempt = last->attempt;
  told.verdict = true;
  told.reason = last->verdict->reason;
  told.failure = last->verdict->failure;
  told.counters = last->counters;
  told.progress = Summarize(last->progress);
  told.unwritten = last->unwritten;
  told.doubt = last->doubt;
  return told;
}

std::optional<Termination> OutcomeOf(const AgentEnd& end, const GangStatus* last,
                                     uint32_t machine0_attempt) {
  Result<Termination> message = ParseTermination(end.message);
  std::optional<Termination> heard = VerdictHeard(last, machine0_attempt);
  if (message.ok() && VerdictCounts(*message, end.attempt, machine0_attempt)) {
    if (heard && message->unwritten.empty()) message->unwritten = std::move(heard->unwritten);
    return std::move(*message);
  }
  if (heard) return heard;
  if (message.ok() || !end.exit_code || !IsVerdict(*end.exit_code)) return std::nullopt;
  if (!KnowsNoEarlierGang(end, machine0_attempt)) return std::nullopt;
  return FromExitCode(end, last, machine0_attempt);
}

}  // namespace lockstep::core
