// A port for each process, free on its machine, and every machine's address: for frameworks whose
// processes are told of all the others before they start (TensorFlow).
#include <utility>

#include "core/gang/coordinator.h"

namespace lockstep::core {

namespace {

constexpr int kMostPortTries = 16;

}  // namespace

// On one computer no two machines have a port in common, in pods all have the same.
uint32_t Coordinator::PortsOnAMachine() const {
  return config_.processes * (config_.one_computer ? config_.machines : 1);
}

std::vector<MachinePorts> Coordinator::PortsByMachine() const {
  std::vector<MachinePorts> ports;
  if (!port_search_) return ports;
  for (const Slot& slot : roster_) {
    const uint32_t before = config_.one_computer ? slot.machine * config_.processes : 0;
    ports.push_back({slot.address, port_search_->first + before});
  }
  return ports;
}

bool Coordinator::HavePorts() {
  if (!config_.ports) return true;
  if (!port_search_) {
    port_search_.emplace();
    FindOtherPorts();
  }
  return port_search_->first != 0 && port_search_->awaited.empty();
}

void Coordinator::FindOtherPorts() {
  port_search_->first = 0;
  port_search_->awaited.clear();
  outbox_.Add(FindPorts{generation_, PortsOnAMachine()});
}

// Machine 0 has looked for the whole computer, and two that look at once are in each other's way.
CoordinatorActions Coordinator::OnPortsFound(Time now, const FoundPorts& found) {
  const bool awaited = phase_ == CoordinatorPhase::kPreparing && port_search_ &&
                       port_search_->first == 0 && found.generation == generation_;
  if (awaited) {
    if (!found.error.empty()) {
      CouldNotPrepare(now, found.error);
      return Step(now);
    }
    port_search_->first = found.first;
    for (const Slot& slot : roster_) {
      if (config_.one_computer || slot.machine == 0) continue;
      port_search_->awaited.insert(slot.machine);
      AskForPorts(slot);
    }
  }
  return Step(now);
}

void Coordinator::AskForPorts(const Slot& slot) {
  Send(slot, TryPorts{generation_, port_search_->first, PortsOnAMachine()});
}

void Coordinator::Handle(Time now, Slot& slot, const PortsTried& tried) {
  const bool awaited = phase_ == CoordinatorPhase::kPreparing && port_search_ &&
                       tried.generation == generation_ && tried.first == port_search_->first;
  if (!awaited) return;
  if (port_search_->awaited.erase(slot.machine) == 0 || tried.taken == 0) return;
  if (++port_search_->tries < kMostPortTries) return FindOtherPorts();
  CouldNotPrepare(now,
                  "no " + std::to_string(PortsOnAMachine()) +
                      " ports in a row are free on every machine; the last one in use was port " +
                      std::to_string(tried.taken) + " of machine " + std::to_string(slot.machine));
}

}  // namespace lockstep::core
