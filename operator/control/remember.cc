#include "operator/control/policies.h"

namespace lockstep::control {

void Remember(Draft& draft) {
  Memory& memory = draft.memory();
  if (draft.snapshot.status.epoch == 0) memory.from_the_beginning = true;
  for (const Machine& machine : draft.machines) {
    if (machine.attempt > 0) memory.recorded.insert({machine.index, machine.attempt});
  }
  for (const kube::PodView* pod : draft.snapshot.pods) {
    if (pod->machine < 0) continue;
    const Incarnation incarnation{static_cast<uint32_t>(pod->machine), pod->attempt};
    memory.existed.insert(incarnation);
    // A pod that vanished without being seen over was perhaps deleted by force, its processes
    // alive.
    if (IsOver(*pod)) memory.ended.insert(incarnation);
  }
  std::erase_if(memory.vanished, [&](const auto& each) {
    const auto& [machine, attempt] = each.first;
    return attempt != draft.snapshot.status.attempts.Of(static_cast<int>(machine));
  });
  const core::GangStatus* gang = Coordinator(draft);
  if (gang == nullptr || !IsPhase(*gang, core::CoordinatorPhase::kFencing)) {
    memory.fencing_since.reset();
  } else if (!memory.fencing_since) {
    memory.fencing_since = draft.now.boot;
  }
}

}  // namespace lockstep::control
