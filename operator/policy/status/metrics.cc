// Condition MetricBroken: a figure broke a rule of failurePolicy.rules whose action is Report.
#include <string>

#include "core/text/limited_text.h"
#include "operator/policy/status/status_policies.h"

namespace lockstep::control {

void ObserveMetrics(ReconcileContext& context) {
  const bool asked = !core::MetricRules(context.spec().failure_policy).empty();
  const core::GangStatus* gang = Coordinator(context);
  const core::Condition* before = core::FindCondition(context.next.conditions, "MetricBroken");
  if (!asked && before == nullptr) return;
  if (context.next.state != core::JobState::kRunning) {
    return SetCondition(context, "MetricBroken", false, "NoRankReports", "");
  }
  if (gang == nullptr) return;
  if (!gang->noted_metric)
    return SetCondition(context, "MetricBroken", false, "NoRuleIsBroken", "");
  const std::string message = core::OneLine(gang->noted_metric->message);
  const bool said = before != nullptr && before->status == core::Condition::Value::kTrue;
  if (said && before->message == message) return;
  context.AddEvent(true, "MetricBroken", message);
  PutCondition(context, "MetricBroken", core::Condition::Value::kTrue, "RuleIsBroken", message);
}

}  // namespace lockstep::control
