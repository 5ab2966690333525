#include <algorithm>

#include "operator/policy/status/status_policies.h"

namespace lockstep::control {
namespace {

using core::Condition;

const core::GangStatus::MachineStatus* ToldOfBinding(const ReconcileContext& context,
                                                     const Machine& machine) {
  const core::GangStatus* gang = Coordinator(context);
  if (gang == nullptr) return nullptr;
  const core::GangStatus::MachineStatus* told = ReportOf(*gang, machine);
  return told == nullptr || told->binding == core::Binding::kUnknown ? nullptr : told;
}

bool IsMisaligned(const MachineObservation& seen) { return seen.end && seen.end->misaligned; }

// Why a node would not have the machine, for as long as no attempt of it runs.
const MachineObservation* Rejected(const Machine& machine) {
  if (machine.life == Life::kRunning) return nullptr;
  if (machine.last_seen != nullptr && IsMisaligned(*machine.last_seen)) {
    return machine.last_seen;
  }
  const auto found = std::find_if(machine.earlier.begin(), machine.earlier.end(),
                                  [](const auto* seen) { return IsMisaligned(*seen); });
  return found == machine.earlier.end() ? nullptr : *found;
}

}  // namespace

std::string BindingOf(const ReconcileContext& context, const Machine& machine) {
  const auto* told = ToldOfBinding(context, machine);
  return told == nullptr ? "" : core::ToString(told->binding);
}

std::string BoundOtherwise(const ReconcileContext& context, const Machine& machine) {
  const auto* told = ToldOfBinding(context, machine);
  const core::Bind asked = context.spec().topology.bind;
  if (told == nullptr || asked == core::Bind::kNone || core::IsAsAsked(told->binding)) return "";
  std::string what = std::string("is bound ") + core::ToString(told->binding) + " where " +
                     core::ToString(asked) + " was asked";
  if (!told->binding_reason.empty()) what += ": " + told->binding_reason;
  return what;
}

// Between two generations nothing is bound: what was said last stands.
void ObserveAlignment(ReconcileContext& context) {
  if (context.spec().topology.bind == core::Bind::kNone) {
    std::erase_if(context.next.conditions,
                  [](const Condition& each) { return each.type == "TopologyAligned"; });
    return;
  }
  bool all_told = !context.machines.empty();
  for (const Machine& machine : context.machines) {
    if (const MachineObservation* seen = Rejected(machine)) {
      const MachineEnd& end = *seen->end;
      return PutCondition(context, "TopologyAligned", Condition::Value::kFalse, "RejectedByKubelet",
                          NameOf(machine) + " on node " + seen->node + ": " + end.reason +
                              (end.message.empty() ? "" : ": " + end.message));
    }
    all_told &= ToldOfBinding(context, machine) != nullptr;
    const std::string otherwise = BoundOtherwise(context, machine);
    if (otherwise.empty()) continue;
    return PutCondition(context, "TopologyAligned", Condition::Value::kFalse, "BoundOtherwise",
                        NameOf(machine) + " " + otherwise);
  }
  if (!all_told) return;
  PutCondition(context, "TopologyAligned", Condition::Value::kTrue, "AllBoundAsAsked", "");
}

}  // namespace lockstep::control
