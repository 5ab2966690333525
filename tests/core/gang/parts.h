// Parts: what a part of the coordinator needs in a test: a roster whose machines are all connected,
// and an outbox.
#ifndef LOCKSTEP_TESTS_CORE_GANG_PARTS_H_
#define LOCKSTEP_TESTS_CORE_GANG_PARTS_H_

#include <utility>
#include <variant>
#include <vector>

#include "core/gang/coordinator/coordinator_actions.h"
#include "core/gang/protocol/messages.h"
#include "core/gang/roster/roster.h"

namespace lockstep::core {

struct Parts {
  explicit Parts(uint32_t machines) : roster(machines, {}) {
    for (Roster::Slot& slot : roster) {
      slot.attempt = 1;
      slot.address = "10.0.0." + std::to_string(slot.machine);
      roster.Connect(slot, slot.machine + 1);
    }
  }

  // The messages of one type that were sent since this was asked, with their machines. Other
  // actions are dropped.
  template <typename Body>
  std::vector<std::pair<uint32_t, Body>> Sent() {
    std::vector<std::pair<uint32_t, Body>> sent;
    for (const CoordinatorAction& action : outbox.Take()) {
      const auto* send = std::get_if<SendTo>(&action);
      if (send == nullptr) continue;
      if (const auto* body = std::get_if<Body>(&send->message)) {
        sent.emplace_back(roster.Of(send->connection)->machine, *body);
      }
    }
    return sent;
  }

  // The machine holds these parts, and no others.
  void Hold(uint32_t machine, std::vector<MemoryPart> parts) {
    roster[machine].memory = HeldParts{"machine-" + std::to_string(machine), std::move(parts)};
  }

  Roster roster;
  Outbox outbox;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_TESTS_CORE_GANG_PARTS_H_
