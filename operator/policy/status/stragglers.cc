#include "core/gang/diagnosis/stragglers.h"

#include <cstdio>

#include "operator/policy/status/status_policies.h"

namespace lockstep::control {
namespace {

using core::Condition;

// The known reason, from its agent and from the kernel that bound its ranks.
std::string Reasons(const ReconcileContext& context, const core::Straggler& straggler,
                    const Machine& machine) {
  std::string reasons;
  if (!straggler.because.empty()) reasons += "; " + straggler.because;
  const std::string bound = BoundOtherwise(context, machine);
  if (!bound.empty()) reasons += "; it " + bound;
  return reasons;
}

}  // namespace

void ObserveStraggler(ReconcileContext& context) {
  const core::GangStatus* gang = Coordinator(context);
  if (gang == nullptr && context.next.state == core::JobState::kRunning) return;
  if (gang == nullptr || !gang->straggler || gang->straggler->machine >= context.machines.size()) {
    return SetCondition(context, "Straggler", false, "NoneIsLast", "");
  }
  const core::Straggler& straggler = *gang->straggler;
  const Machine& machine = context.machines[straggler.machine];
  std::string who = NameOf(machine);
  if (machine.seen != nullptr && !machine.seen->node.empty()) {
    who += " on node " + machine.seen->node;
  }
  who += " is last";
  // Said once: how late it is changes with every word of the gang.
  const Condition* before = core::FindCondition(context.next.conditions, "Straggler");
  if (before != nullptr && before->status == Condition::Value::kTrue &&
      before->message.starts_with(who)) {
    return;
  }
  char cost[16];
  std::snprintf(cost, sizeof cost, "%.0f%%", 100 * straggler.cost);
  std::string message = who + " at the gang's collectives: the others wait for it for " + cost +
                        " of each step" + Reasons(context, straggler, machine);
  if (context.spec().failure_policy.stragglers == core::Stragglers::kReplace) {
    message += "; it is replaced at the next checkpoint";
  }
  context.AddEvent(true, "Straggler", message);
  if (machine.seen != nullptr) {
    NoteSuspect(context, machine.seen->node, kStragglerThere, message);
  }
  SetCondition(context, "Straggler", true, "OneIsLast", std::move(message));
}

}  // namespace lockstep::control
