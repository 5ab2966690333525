#include "core/gang/coordinator/port_finder.h"

#include <utility>

namespace lockstep::core {

namespace {

constexpr int kMostTries = 16;

}  // namespace

// On one computer no two machines have a port in common, in pods all have the same.
uint32_t PortFinder::OnAMachine() const {
  return config_.processes * (config_.one_computer ? config_.machines : 1);
}

std::vector<MachinePorts> PortFinder::found() const {
  std::vector<MachinePorts> ports;
  if (!search_) return ports;
  for (const Roster::Slot& slot : roster_) {
    const uint32_t before = config_.one_computer ? slot.machine * config_.processes : 0;
    ports.push_back({slot.address, search_->first + before});
  }
  return ports;
}

bool PortFinder::Have(Generation generation) {
  if (!config_.wanted) return true;
  if (!search_) {
    search_ = Search();
    search_->generation = generation;
    FindOthers();
  }
  return search_->first != 0 && search_->awaited.empty();
}

void PortFinder::FindOthers() {
  search_->first = 0;
  search_->awaited.clear();
  outbox_.Add(FindPorts{search_->generation, OnAMachine()});
}

// Machine 0 has looked for the whole computer, and two that look at once are in each other's way.
std::string PortFinder::OnFound(const FoundPorts& found) {
  const bool awaited = search_ && search_->first == 0 && found.generation == search_->generation;
  if (!awaited || !found.error.empty()) return awaited ? found.error : "";
  search_->first = found.first;
  for (const Roster::Slot& slot : roster_) {
    if (config_.one_computer || slot.machine == 0) continue;
    search_->awaited.insert(slot.machine);
    Ask(slot);
  }
  return "";
}

void PortFinder::Ask(const Roster::Slot& slot) {
  outbox_.Send(slot, TryPorts{search_->generation, search_->first, OnAMachine()});
}

void PortFinder::AskAgain(const Roster::Slot& slot) {
  if (search_ && search_->awaited.contains(slot.machine)) Ask(slot);
}

std::string PortFinder::OnTried(uint32_t machine, const PortsTried& tried) {
  const bool awaited = search_ && tried.generation == search_->generation &&
                       tried.first == search_->first && search_->awaited.erase(machine) > 0;
  if (!awaited || tried.taken == 0) return "";
  if (++search_->tries < kMostTries) {
    FindOthers();
    return "";
  }
  return "no " + std::to_string(OnAMachine()) +
         " ports in a row are free on every machine; the last one in use was port " +
         std::to_string(tried.taken) + " of machine " + std::to_string(machine);
}

}  // namespace lockstep::core
