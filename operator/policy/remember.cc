#include "operator/policy/policies.h"

namespace lockstep::control {

void Remember(ReconcileContext& context) {
  const Snapshot& snapshot = context.snapshot;
  AttemptsMemory& memory = context.Own<&Memory::attempts>();
  if (snapshot.status.epoch == 0) memory.from_the_beginning = true;
  for (const Machine& machine : context.machines) {
    if (machine.attempt > 0) memory.recorded.insert({machine.index, machine.attempt});
  }
  const auto remember = [&](const MachineObservation& seen) {
    if (seen.machine < 0) return;
    const MachineAttempt key{static_cast<uint32_t>(seen.machine), seen.attempt};
    memory.existed.insert(key);
    // What vanished without being seen over was perhaps deleted by force, its processes alive.
    if (seen.over()) memory.ended.insert(key);
  };
  for (const MachineObservation& seen : snapshot.machines) remember(seen);
  for (const auto& [key, seen] : snapshot.notes.vanished) remember(seen);
  memory.existed.insert(snapshot.notes.made.begin(), snapshot.notes.made.end());
  RememberAddresses(context);
  RememberSpares(context);
  RememberRelease(context);
  RememberFencing(context);
}

}  // namespace lockstep::control
