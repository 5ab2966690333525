#include <re2/re2.h>

#include <cstdint>
#include <limits>

#include "core/validate/validator.h"

namespace lockstep::core {
namespace {

const std::string kPath = "spec.failurePolicy";

void ValidateRule(Validator& validator, const std::string& path, const FailureRule& rule) {
  if (rule.exit_codes.empty() && rule.signals.empty() && rule.stderr_regex.empty()) {
    validator.Error(path, "matches nothing; write exitCodes, signals or stderr");
  }
  for (size_t i = 0; i < rule.exit_codes.size(); ++i) {
    validator.Range(path + ".exitCodes[" + std::to_string(i) + "]", rule.exit_codes[i], 1, 255);
  }
  if (!rule.exit_codes.empty() && !rule.signals.empty()) {
    validator.Error(path,
                    "matches nothing: no process ends with an exit code and of a signal; write two "
                    "rules");
  }
  const RE2 regex(rule.stderr_regex, RE2::Quiet);
  if (!regex.ok()) {
    validator.Error(
        path + ".stderr",
        "is no regular expression (https://github.com/google/re2/wiki/Syntax): " + regex.error());
  }
}

}  // namespace

void ValidateFailurePolicy(Validator& validator) {
  const FailurePolicy& policy = validator.job.spec.failure_policy;
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  validator.Range(kPath + ".maxRestarts", policy.max_restarts, 0, kMost);
  validator.Range(kPath + ".maxMachineReplacements", policy.max_machine_replacements, 0, kMost);
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
