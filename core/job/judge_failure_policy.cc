#include <re2/re2.h>

#include "base/duration.h"
#include "core/job/judge.h"

namespace lockstep::core {
namespace {

const std::string kPath = "spec.failurePolicy";
constexpr size_t kMostRules = 64;
constexpr size_t kLongestRegex = 1024;

void JudgeRule(Judge& judge, const std::string& path, const FailureRule& rule) {
  if (rule.exit_codes.empty() && rule.signals.empty() && rule.stderr_regex.empty()) {
    judge.Error(path, "matches nothing; write exitCodes, signals or stderr");
  }
  for (size_t i = 0; i < rule.exit_codes.size(); ++i) {
    judge.Range(path + ".exitCodes[" + std::to_string(i) + "]", rule.exit_codes[i], 1, 255);
  }
  if (!rule.exit_codes.empty() && !rule.signals.empty()) {
    judge.Error(path,
                "matches nothing: no process ends with an exit code and of a signal; write two "
                "rules");
  }
  if (rule.stderr_regex.size() > kLongestRegex) {
    judge.Error(path + ".stderr", "must be at most 1024 characters long");
    return;
  }
  const RE2 regex(rule.stderr_regex, RE2::Quiet);
  if (!regex.ok()) {
    judge.Error(
        path + ".stderr",
        "is no regular expression (https://github.com/google/re2/wiki/Syntax): " + regex.error());
  }
}

}  // namespace

void JudgeFailurePolicy(Judge& judge) {
  const FailurePolicy& policy = judge.job.spec.failure_policy;
  judge.AtLeast(kPath + ".maxRestarts", policy.max_restarts, 0);
  judge.AtLeast(kPath + ".maxMachineReplacements", policy.max_machine_replacements, 0);
  judge.AtLeast(kPath + ".resetAfter", policy.reset_after, seconds(1));
  judge.AtLeast(kPath + ".restartGracePeriod", policy.restart_grace_period, seconds(0));
  if (policy.machine_lost_after < seconds(2) || policy.machine_lost_after > minutes(10)) {
    judge.Error(kPath + ".machineLostAfter", "must lie between 2s and 10m",
                FormatDuration(policy.machine_lost_after));
  }
  if (policy.rules.size() > kMostRules) {
    judge.Error(kPath + ".rules", "must be at most 64", std::to_string(policy.rules.size()));
  }
  for (size_t i = 0; i < policy.rules.size(); ++i) {
    JudgeRule(judge, kPath + ".rules[" + std::to_string(i) + "]", policy.rules[i]);
  }
}

}  // namespace lockstep::core
