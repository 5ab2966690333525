#include "operator/policy/status/status_policies.h"

namespace lockstep::control {
namespace {

constexpr const char* kRanksNeverMet = "RanksNeverMet";
constexpr size_t kAlike = 64;  // a status has less room than an agent

}  // namespace

void DoubtWorld(ReconcileContext& context, const std::string& doubt) {
  const core::Condition* before = core::FindCondition(context.next.conditions, kRanksNeverMet);
  const std::string beginning = doubt.substr(0, kAlike);
  if (doubt.empty() || (before != nullptr && before->message.starts_with(beginning))) return;
  context.AddEvent(true, kRanksNeverMet, doubt);
  SetCondition(context, kRanksNeverMet, true, "SeparateWorlds", doubt);
}

void ObserveWorld(ReconcileContext& context) {
  if (const core::GangStatus* gang = Coordinator(context)) DoubtWorld(context, gang->doubt);
}

}  // namespace lockstep::control
