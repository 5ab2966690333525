#include <algorithm>

#include "operator/policy/policies.h"

namespace lockstep::control {

namespace {

bool IsMissingSomething(Draft& draft) {
  return !draft.memory().key_made || !draft.snapshot.has_names ||
         !draft.snapshot.coordinator_address ||
         std::ranges::any_of(draft.machines, [](const Machine& machine) {
           return machine.life == Life::kToCreate;
         });
}

}  // namespace

void Remember(Draft& draft) {
  Memory& memory = draft.memory();
  if (draft.snapshot.status.epoch == 0) memory.from_the_beginning = true;
  for (const Machine& machine : draft.machines) {
    if (machine.attempt > 0) memory.recorded.insert({machine.index, machine.attempt});
  }
  for (const MachineObservation& seen : draft.snapshot.machines) {
    if (seen.machine < 0) continue;
    const Incarnation incarnation{static_cast<uint32_t>(seen.machine), seen.attempt};
    memory.existed.insert(incarnation);
    // What vanished without being seen over was perhaps deleted by force, its processes alive.
    if (seen.over()) memory.ended.insert(incarnation);
  }
  std::erase_if(memory.vanished, [&](const auto& each) {
    const auto& [machine, attempt] = each.first;
    return attempt != draft.snapshot.status.attempts.Of(static_cast<int>(machine));
  });
  if (draft.snapshot.has_names && draft.snapshot.coordinator_address) {
    memory.had_addresses = true;
    memory.addresses_gone.reset();
  } else if (memory.had_addresses && !memory.addresses_gone) {
    memory.addresses_gone = draft.now.boot;
  }
  if (!draft.snapshot.status.attempts.empty()) memory.start_again.reset();
  // What was refused may be there all the same, by a try whose answer was lost, or not be wanted
  // any more.
  if (!IsMissingSomething(draft)) {
    memory.refusal.reset();
    memory.refusals = 0;
  }
  const core::GangStatus* gang = Coordinator(draft);
  if (gang == nullptr || !IsPhase(*gang, core::CoordinatorPhase::kFencing)) {
    memory.fencing_since.reset();
  } else if (!memory.fencing_since) {
    memory.fencing_since = draft.now.boot;
  }
}

}  // namespace lockstep::control
