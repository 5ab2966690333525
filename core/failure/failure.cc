#include "core/failure/failure.h"

#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <csignal>

#include "core/exit_codes.h"

namespace lockstep::core {

namespace {

std::string Number(int64_t value) { return std::to_string(value); }

std::string Times(int64_t count) { return count == 1 ? "once" : Number(count) + " times"; }

bool Contains(const std::vector<int>& values, int value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

bool Matches(const FailureRule& rule, const Failure& failure) {
  if (!rule.metric.empty()) return false;
  if (rule.exit_codes.empty() && rule.signals.empty() && rule.stderr_regex.empty()) return false;
  if (!rule.exit_codes.empty() && !Contains(rule.exit_codes, failure.exit_code)) return false;
  if (!rule.signals.empty() && !Contains(rule.signals, failure.signal)) return false;
  if (rule.stderr_regex.empty()) return true;
  const RE2 regex(rule.stderr_regex, RE2::Quiet);
  return regex.ok() && RE2::PartialMatch(failure.stderr_tail, regex);
}

const FailureRule* FirstMatch(const std::vector<FailureRule>& rules, const Failure& failure) {
  const auto match = std::find_if(rules.begin(), rules.end(),
                                  [&](const FailureRule& rule) { return Matches(rule, failure); });
  return match == rules.end() ? nullptr : &*match;
}

// Signals that a program's own bugs cause. SIGKILL and SIGTERM come from outside.
bool IsCrash(int signal) {
  constexpr std::array kCrashes = {SIGSEGV, SIGABRT, SIGBUS, SIGILL, SIGFPE, SIGSYS};
  return std::find(kCrashes.begin(), kCrashes.end(), signal) != kCrashes.end();
}

// The same rank died in the same way twice in a row, each time soon after its start and before any
// known step: a bug that no restart heals. Only what a process did by itself counts.
bool IsEarlyCrash(const FailureContext& context) {
  if (context.first_step_seen || context.lived >= kShortLife || !context.previous) return false;
  const Failure& now = context.failure;
  const Failure& before = *context.previous;
  if (now.rank < 0 || now.rank != before.rank) return false;
  if (now.cause == Cause::kProcessSignal && before.cause == Cause::kProcessSignal) {
    return now.signal == before.signal && IsCrash(now.signal);
  }
  return now.cause == Cause::kProcessExit && before.cause == Cause::kProcessExit &&
         now.exit_code == before.exit_code;
}

Duration BackoffFor(const FailureContext& context) {
  return IsShortLife(context) ? BackoffAfter(context.short_lives) : Duration::zero();
}

int ExitCodeFor(const Failure& failure) {
  const int code = RowOf(failure.cause).exit_code;
  return code == kExitFailed && failure.exit_code == kExitConfiguration ? kExitConfiguration : code;
}

std::string HowItEnded(const Failure& failure) {
  if (failure.signal > 0) return "signal " + Number(failure.signal);
  if (failure.exit_code >= 0) return "exit code " + Number(failure.exit_code);
  return std::string("cause ") + ToString(failure.cause);
}

FailureDecision Fail(Cause cause, const Failure& failure, std::string reason) {
  return {.action = FailureAction::kFail,
          .cause = cause,
          .exit_code = ExitCodeFor(failure),
          .reason = std::move(reason)};
}

std::string WhatAlwaysFails(const Failure& failure) {
  if (failure.cause == Cause::kConfiguration) {
    return "the job cannot run as it is written; correct it: a restart would end the same way";
  }
  return "correct spec.command, spec.workingDir or the image: a restart would end the same way";
}

std::string WhyDefaultRule(const Failure& failure) {
  if (failure.exit_code == kExitUsage) {
    return "exit code 2 means that the program can't work as it was started (a wrong option, or a "
           "missing file or library: its last lines name it), so the job is not "
           "restarted; to restart on it, add the rule {exitCodes: [2], action: Restart}";
  }
  return "exit code " + Number(failure.exit_code) +
         " means that the command was not found or cannot be executed; correct spec.command or the "
         "image";
}

// Budgets, then backoff.
FailureDecision RestartWithinBudget(const FailurePolicy& policy, const FailureContext& context,
                                    FailureAction action) {
  const Failure& failure = context.failure;
  // Replacing a machine is charged to infrastructure, for any cause of the process's death.
  const bool infrastructure = action == FailureAction::kReplaceMachine ||
                              ClassOf(failure.cause) == CauseClass::kInfrastructure;
  if (infrastructure) {
    if (context.machine_failures_used > policy.max_machine_replacements) {
      return Fail(Cause::kRestartsExhausted, failure,
                  Number(context.machine_failures_used) +
                      (context.machine_failures_used == 1 ? " machine" : " machines") +
                      " failed, and spec.failurePolicy.maxMachineReplacements is " +
                      Number(policy.max_machine_replacements));
    }
  } else if (context.application_failures_used + 1 > policy.max_restarts) {
    return Fail(Cause::kRestartsExhausted, failure,
                "the processes failed " + Times(context.application_failures_used + 1) +
                    " and spec.failurePolicy.maxRestarts is " + Number(policy.max_restarts));
  }
  FailureDecision decision;
  decision.action = action;
  decision.cause = failure.cause;
  decision.backoff = BackoffFor(context);
  if (infrastructure) {
    decision.reason = "machine failure " + Number(context.machine_failures_used) + " of " +
                      Number(policy.max_machine_replacements) + " allowed";
  } else {
    decision.reason = "restart " + Number(context.application_failures_used + 1) + " of " +
                      Number(policy.max_restarts) + " allowed";
  }
  return decision;
}

// A metric broke a rule. The rule is of the START, so that an edit of the policy changes nothing
// here.
FailureDecision DecideBrokenMetric(const FailurePolicy& policy, const FailureContext& context) {
  const FailureRule& rule = *context.metric_rule;
  if (ActionOf(rule) != FailureAction::kRestartFromEarlier) {
    return Fail(context.failure.cause, context.failure,
                "the rule about " + rule.metric + " in spec.failurePolicy.rules says Fail");
  }
  if (context.earlier >= rule.at_most) {
    return Fail(context.failure.cause, context.failure,
                "the job was restarted from an earlier checkpoint " + Times(context.earlier) +
                    " already, and the rule's atMost is " + Number(rule.at_most));
  }
  FailureDecision decision =
      RestartWithinBudget(policy, context, FailureAction::kRestartFromEarlier);
  if (decision.action == FailureAction::kRestartFromEarlier) {
    decision.reason += ", from the newest checkpoint before step " + Number(context.failure.step);
  }
  return decision;
}

}  // namespace

const std::vector<FailureRule>& DefaultRules() {
  static const std::vector<FailureRule> rules = [] {
    FailureRule fails;
    fails.exit_codes = {kExitUsage, kExitNotExecutable, kExitCommandNotFound};
    fails.action = FailureAction::kFail;
    FailureRule replaces;
    replaces.exit_codes = {kExitBroken};
    replaces.action = FailureAction::kReplaceMachine;
    return std::vector<FailureRule>{fails, replaces};
  }();
  return rules;
}

FailureAction ActionOf(const FailureRule& rule) {
  return rule.action.value_or(rule.metric.empty() ? FailureAction::kRestart
                                                  : FailureAction::kReport);
}

std::optional<double> FactorOf(const std::string& rises_by) {
  static const RE2 kForm("([0-9]{1,6}(?:\\.[0-9]{1,6})?)x");
  double factor = 0;
  if (!RE2::FullMatch(rises_by, kForm, &factor) || !(factor > 1)) return std::nullopt;
  return factor;
}

std::vector<FailureRule> SplitMetricRules(FailurePolicy* policy) {
  std::vector<FailureRule> rules = MetricRules(*policy);
  for (FailureRule& rule : policy->rules) {
    if (rule.metric.empty()) continue;
    rule = FailureRule();
    rule.action = FailureAction::kRestart;
  }
  return rules;
}

void JoinMetricRules(FailurePolicy* policy, const std::vector<FailureRule>& rules) {
  size_t next = 0;
  for (FailureRule& rule : policy->rules) {
    const bool empty = rule.exit_codes.empty() && rule.signals.empty() && rule.stderr_regex.empty();
    if (empty && rule.metric.empty() && next < rules.size()) rule = rules[next++];
  }
}

std::vector<FailureRule> MetricRules(const FailurePolicy& policy) {
  std::vector<FailureRule> rules;
  for (const FailureRule& rule : policy.rules) {
    if (!rule.metric.empty()) rules.push_back(rule);
  }
  return rules;
}

bool IsShortLife(const FailureContext& context) {
  return context.lived < kShortLife && !(context.lives_on && context.first_step_seen);
}

Duration BackoffAfter(int failures) {
  constexpr std::array kSteps = {seconds(0), seconds(1), seconds(5), seconds(30)};
  const auto step = static_cast<size_t>(std::max(0, failures));
  return kSteps[std::min(step, kSteps.size() - 1)];
}

int ExitCodeOfJob(const Failure& failure, int code) {
  if (failure.signal > 0) return kExitSignal + failure.signal;
  if (failure.exit_code > 0) return failure.exit_code;
  return ClassOf(failure.cause) == CauseClass::kInfrastructure ? kExitMachines : code;
}

FailureDecision DecideFailure(const FailurePolicy& policy, const FailureContext& context) {
  const Failure& failure = context.failure;
  // A stop on request is no failure: the requester decides what follows, and no budget is charged.
  if (ClassOf(failure.cause) == CauseClass::kStopped) {
    return {.action = FailureAction::kRestart,
            .cause = failure.cause,
            .reason = "stopped on request; no budget is charged"};
  }
  if (failure.cause == Cause::kBrokenMetric && context.metric_rule) {
    return DecideBrokenMetric(policy, context);
  }
  if (const FailureRule* rule = FirstMatch(policy.rules, failure)) {
    const std::string which =
        "rule " + Number(rule - policy.rules.data()) + " of spec.failurePolicy.rules";
    if (ActionOf(*rule) == FailureAction::kFail) {
      return Fail(failure.cause, failure, which + " fails the job on " + HowItEnded(failure));
    }
    return RestartWithinBudget(policy, context, ActionOf(*rule));
  }
  if (failure.cause == Cause::kCommandNotFound || failure.cause == Cause::kConfiguration) {
    return Fail(failure.cause, failure, WhatAlwaysFails(failure));
  }
  if (const FailureRule* rule = FirstMatch(DefaultRules(), failure)) {
    if (ActionOf(*rule) == FailureAction::kFail)
      return Fail(failure.cause, failure, WhyDefaultRule(failure));
    return RestartWithinBudget(policy, context, ActionOf(*rule));
  }
  if (IsEarlyCrash(context)) {
    return Fail(
        Cause::kEarlyCrash, failure,
        "rank " + Number(failure.rank) + " ended twice in a row with " + HowItEnded(failure) +
            (context.reports ? " before a first reported step" : " within 60 s of the start") +
            "; a restart would end the same way");
  }
  const FailureAction action = failure.cause == Cause::kUnkillable ? FailureAction::kReplaceMachine
                                                                   : FailureAction::kRestart;
  return RestartWithinBudget(policy, context, action);
}

}  // namespace lockstep::core
