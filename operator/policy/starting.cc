#include <string>
#include <utility>

#include "operator/policy/loss.h"
#include "operator/policy/status/advice.h"

namespace lockstep::control {
namespace {

// While kubelet tries again, the reason of an image that cannot be pulled alternates.
std::string LikenessOf(const MachineObservation& seen) {
  if (!seen.trouble) return seen.unprepared ? "volumes or network" : "";
  const std::string& reason = seen.trouble->reason;
  return seen.trouble->container + "/" + (IsImageTrouble(reason) ? "image" : reason);
}

std::string WhatKeepsIt(const MachineObservation& seen) {
  if (!seen.trouble) return "its volumes or its network are not ready";
  const StartTrouble& trouble = *seen.trouble;
  return ContainerText(trouble.container) + ": " + trouble.reason +
         (trouble.message.empty() ? "" : ": " + trouble.message);
}

}  // namespace

std::optional<Loss> FindStuck(ReconcileContext& context, const Machine& machine) {
  auto& memory = context.StateOf<&PolicyState::replacement>().stuck;
  const MachineObservation& seen = *machine.seen;
  std::string likeness = LikenessOf(seen);
  if (likeness.empty()) {
    memory.erase(machine.index);
    return std::nullopt;
  }
  ReplacementState::Stuck& stuck = memory[machine.index];
  if (stuck.uid != seen.uid || stuck.likeness != likeness) {
    stuck = {seen.uid, likeness, context.now.boot};
  }
  if (!context.IsDue(stuck.since + context.spec().health.start_timeout)) return std::nullopt;
  Loss loss{&machine, EndKind::kRejected,
            "it did not start on node " + seen.node + " within startTimeout: " + WhatKeepsIt(seen)};
  loss.payer = seen.trouble ? seen.trouble->payer : Payer::kSuspect;
  loss.likeness = std::move(likeness);
  loss.elsewhere = true;
  return loss;
}

}  // namespace lockstep::control
