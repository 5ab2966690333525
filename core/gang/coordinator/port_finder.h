// PortFinder: finds a free port on its machine for each process of a generation, and every
// machine's address. TensorFlow needs it: its processes get the addresses of all others at their
// start. Machine 0 finds ports in a row, and the other machines report whether theirs are free. The
// coordinator owns it. Pure.
#ifndef LOCKSTEP_CORE_GANG_COORDINATOR_PORT_FINDER_H_
#define LOCKSTEP_CORE_GANG_COORDINATOR_PORT_FINDER_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/gang/coordinator/coordinator_actions.h"
#include "core/gang/protocol/messages.h"
#include "core/gang/roster/roster.h"

namespace lockstep::core {

struct FoundPorts {
  Generation generation;
  uint32_t first = 0;
  std::string error;  // not empty: there are none
};

class PortFinder {
 public:
  struct Config {
    bool wanted = false;        // else every generation does without
    bool one_computer = false;  // the machines share it, and with it the ports
    uint32_t machines = 1;
    uint32_t processes = 1;  // of a machine
  };
  // Roster and outbox must outlive it.
  PortFinder(Config config, const Roster& roster, Outbox& outbox)
      : config_(config), roster_(roster), outbox_(outbox) {}

  // Whether `generation` has its ports, or needs none. False: the search for them goes on.
  bool Have(Generation generation);
  // Why the generation can't have ports; "": nothing speaks against it.
  std::string OnFound(const FoundPorts& found);
  std::string OnTried(uint32_t machine, const PortsTried& tried);
  // Repeats the request to a machine, because its last connection may have lost it.
  void AskAgain(const Roster::Slot& slot);
  void Forget() { search_.reset(); }

  // By machine; empty where none were wanted.
  std::vector<MachinePorts> found() const;
  bool waits_for_machines() const { return search_ && !search_->awaited.empty(); }

 private:
  struct Search {
    Generation generation;
    uint32_t first = 0;          // free on machine 0; 0: it still looks
    std::set<uint32_t> awaited;  // machines that have not said whether they are free there
    int tries = 0;               // that came to nothing
  };

  uint32_t OnAMachine() const;
  void FindOthers();
  void Ask(const Roster::Slot& slot);

  const Config config_;
  const Roster& roster_;
  Outbox& outbox_;
  std::optional<Search> search_;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_GANG_COORDINATOR_PORT_FINDER_H_
