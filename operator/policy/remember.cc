#include "operator/policy/kube/kube_policies.h"
#include "operator/policy/policies.h"

namespace lockstep::control {

void Remember(ReconcileContext& context) {
  const Snapshot& snapshot = context.snapshot;
  AttemptsState& memory = context.StateOf<&PolicyState::attempts>();
  if (snapshot.status.epoch == 0) memory.from_the_beginning = true;
  for (const Machine& machine : context.machines) {
    if (machine.attempt == 0) continue;
    const MachineAttempt current{machine.index, machine.attempt};
    memory.attempts[current].existed |= snapshot.notes.made.contains(current);
  }
  const auto remember = [&](const MachineObservation& seen) {
    if (seen.machine < 0) return;
    AttemptsState::Known& known =
        memory.attempts[{static_cast<uint32_t>(seen.machine), seen.attempt}];
    known.existed = true;
    // A pod that vanished before its end was observed may be deleted by force, with its processes
    // alive.
    known.over |= seen.over();
  };
  for (const MachineObservation& seen : snapshot.machines) remember(seen);
  for (const auto& [key, seen] : snapshot.notes.vanished) remember(seen);
  std::erase_if(memory.attempts, [&](const auto& each) {
    const auto [machine, attempt] = each.first;
    return each.second.over && snapshot.status.attempts.Of(static_cast<int>(machine)) != attempt;
  });
  RememberAddresses(context);
  RememberSpares(context);
  RememberRelease(context);
  RememberFencing(context);
  if (!GoneMeansDead(context)) return;
  for (const Machine& machine : context.machines) {
    memory.accounted.insert(machine.index);
    std::erase_if(memory.attempts, [&](const auto& each) {
      return each.first.first == machine.index && each.first.second < machine.attempt;
    });
  }
}

}  // namespace lockstep::control
