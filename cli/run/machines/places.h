// Where each machine of a run is, and how its agent is started and reached there.
#ifndef LOCKSTEP_CLI_RUN_MACHINES_PLACES_H_
#define LOCKSTEP_CLI_RUN_MACHINES_PLACES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/run/machines/nodes.h"
#include "core/plan/far_end.h"

namespace lockstep::cli {

struct Place {
  std::string node;  // its name; "": this computer
  Reach by = Reach::kHere;
  std::string address;        // of its agent: an IP
  uint16_t gang_port = 0;     // where that listens for the gang and for this process
  uint16_t metrics_port = 0;  // 0: nowhere, for whoever is on that node could read it
};

// A loopback address for each machine, with the ports that agents have in pods.
Result<std::vector<Place>> PlacesHere(uint32_t machines);

// Asks all nodes at once, through srun or ssh, by the agent's own words. An Error names those that
// can't be used, why, and what to do. `agent`: its path there.
Result<std::vector<Place>> PlacesOn(const Nodes& nodes, const std::string& agent);

// Pure, of the nodes' answers in their order. A node that is this computer is known to itself by a
// loopback address; `own_towards` finds one that leads to another node's.
Result<std::vector<Place>> PlacesFrom(
    const Nodes& nodes, const std::vector<core::AgentFacts>& facts,
    const std::function<Result<std::string>(const std::string& address)>& own_towards);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_RUN_MACHINES_PLACES_H_
