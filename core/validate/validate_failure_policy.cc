#include <re2/re2.h>

#include "core/validate/validator.h"

namespace lockstep::core {
namespace {

const std::string kPath = "spec.failurePolicy";

void ValidateRule(Validator& validator, const std::string& path, const FailureRule& rule) {
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
