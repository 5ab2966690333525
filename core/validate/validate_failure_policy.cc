#include <re2/re2.h>

#include "core/validate/validator.h"

namespace lockstep::core {
namespace {

const std::string kPath = "spec.failurePolicy";

bool IsOfMetrics(FailureAction action) {
  return action == FailureAction::kRestartFromEarlier || action == FailureAction::kReport;
}

// Fields that a rule without `metric` has no use for.
bool SaysMore(const FailureRule& rule) {
  const FailureRule standard;
  return rule.is || rule.above || !rule.rises_by.empty() || rule.within != standard.within ||
         rule.for_steps != standard.for_steps || rule.skip_steps != standard.skip_steps ||
         rule.at_most != standard.at_most;
}

void ValidateMetricRule(Validator& validator, const std::string& path, const FailureRule& rule) {
  const Spec& spec = validator.job.spec;
  if (!rule.exit_codes.empty() || !rule.signals.empty() || !rule.stderr_regex.empty()) {
    validator.Error(path,
                    "a rule about a metric has no exitCodes, signals or stderr; write two rules");
  }
  const int conditions = (rule.is ? 1 : 0) + (rule.above ? 1 : 0) + (rule.rises_by.empty() ? 0 : 1);
  if (conditions != 1) {
    validator.Error(path, "needs one of is: NotFinite, above and risesBy beside metric");
  }
  if (!rule.rises_by.empty() && !FactorOf(rule.rises_by)) {
    validator.Error(path + ".risesBy", "must be a factor above 1, as in 3x");
  }
  const FailureAction action = ActionOf(rule);
  const bool goes_back = action == FailureAction::kRestartFromEarlier;
  if (action == FailureAction::kRestart || action == FailureAction::kReplaceMachine) {
    validator.Error(path + ".action",
                    "must be RestartFromEarlier, Fail or Report in a rule about a metric");
  }
  if (goes_back && spec.checkpoint.path.empty()) {
    validator.Error(path + ".action",
                    "RestartFromEarlier needs spec.checkpoint.path, where the job's committed "
                    "checkpoints are");
  }
  if (goes_back && spec.checkpoint.memory.size) {
    validator.Error(path + ".action",
                    "RestartFromEarlier does not work with spec.checkpoint.memory: write "
                    "checkpoints to spec.checkpoint.path alone");
  }
  if (rule.skip_steps > 0 && !goes_back) {
    validator.Error(path + ".skipSteps", "needs action: RestartFromEarlier");
  }
  if (spec.progress.from == ProgressFrom::kNever) {
    validator.Error(path + ".metric", "needs progress, and spec.progress.from is Never");
  }
}

void ValidateRule(Validator& validator, const std::string& path, const FailureRule& rule) {
  if (!rule.metric.empty()) return ValidateMetricRule(validator, path, rule);
  if (SaysMore(rule)) {
    validator.Error(path, "is, above, risesBy, within, for, skipSteps and atMost need metric");
    return;
  }
  if (IsOfMetrics(ActionOf(rule))) {
    validator.Error(path + ".action",
                    "must be Restart, Fail or ReplaceMachine in a rule without metric");
  }
  if (rule.exit_codes.empty() && rule.signals.empty() && rule.stderr_regex.empty()) {
    validator.Error(path, "matches nothing; write exitCodes, signals or stderr");
  }
  if (!rule.exit_codes.empty() && !rule.signals.empty()) {
    validator.Error(
        path,
        "matches nothing: no process ends with an exit code and by a signal; write two rules");
  }
  const RE2 regex(rule.stderr_regex, RE2::Quiet);
  if (!regex.ok()) {
    validator.Error(path + ".stderr",
                    "is not a regular expression (https://github.com/google/re2/wiki/Syntax): " +
                        regex.error());
  }
}

}  // namespace

void ValidateFailurePolicy(Validator& validator) {
  const FailurePolicy& policy = validator.job.spec.failure_policy;
  validator.Range(kPath + ".resetAfter", policy.reset_after, seconds(1), hours(8760));
  validator.Range(kPath + ".restartGracePeriod", policy.restart_grace_period, seconds(0),
                  hours(24));
  validator.Range(kPath + ".machineLostAfter", policy.machine_lost_after,
                  kMachineLostAfterLimits.least, kMachineLostAfterLimits.most);
  for (size_t i = 0; i < policy.rules.size(); ++i) {
    ValidateRule(validator, kPath + ".rules[" + std::to_string(i) + "]", policy.rules[i]);
  }
}

}  // namespace lockstep::core
