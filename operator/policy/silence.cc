// Machines of an elastic gang that were lost for their silence. A gang that may shrink is made for
// nodes that come and go, but Kubernetes calls a node that has lost its power ready for some 50 s
// more: what such a loss costs is decided once more is known of the node. Until then
// status.elastic.silent has the machine and the attempt that was lost.
#include <algorithm>

#include "operator/policy/facts/rules.h"
#include "operator/policy/policies.h"

namespace lockstep::control {
namespace {

// From when its pod should have ended. Kubelets whose word is awaited longest have 5 minutes.
constexpr Duration kNodePatience = minutes(6);

// Whether the node went with it. Empty: that is yet to be seen.
std::optional<bool> LostWithItsNode(ReconcileContext& context, const Machine& machine,
                                    uint32_t attempt) {
  const auto found =
      std::ranges::find(machine.earlier, attempt, [](const auto* seen) { return seen->attempt; });
  if (found == machine.earlier.end()) return false;  // its kubelet has let it go
  const MachineObservation& seen = **found;
  if (seen.node_state != NodeState::kWell) return true;
  if (seen.over()) return seen.end->asked;
  if (!seen.leave_by) return std::nullopt;
  if (context.IsDue(*seen.leave_by + kNodePatience)) return false;
  return std::nullopt;
}

}  // namespace

bool AwaitsWordOfNode(ReconcileContext& context, const Machine& machine) {
  std::optional<core::ElasticStatus>& elastic = context.next.elastic;
  const auto index = static_cast<int>(machine.index);
  if (!elastic || elastic->silent.Of(index) != 0) return false;
  elastic->silent.Set(index, machine.attempt);
  return true;
}

bool JudgeSilent(ReconcileContext& context) {
  if (!context.snapshot.status.elastic) return false;
  bool judged = false;
  const core::MachineAttempts& silent = context.snapshot.status.elastic->silent;
  for (const Machine& machine : context.machines) {
    const auto index = static_cast<int>(machine.index);
    const uint32_t attempt = silent.Of(index);
    if (attempt == 0) continue;
    const std::optional<bool> with_node = LostWithItsNode(context, machine, attempt);
    if (!with_node) continue;
    judged = true;
    context.next.elastic->silent.Erase(index);
    if (!*with_node && Holds(Rule::kSilenceIsCharged)) ++context.next.counters.replacements;
  }
  if (!judged) return false;
  context.WriteFirst();
  return true;
}

}  // namespace lockstep::control
