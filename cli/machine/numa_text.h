// What `lockstep bench numa` says: pure functions from its report to text.
#ifndef LOCKSTEP_CLI_MACHINE_NUMA_TEXT_H_
#define LOCKSTEP_CLI_MACHINE_NUMA_TEXT_H_

#include <string>
#include <vector>

#include "base/text/json.h"
#include "cli/machine/machine_facts.h"
#include "cli/numa/bench.h"

namespace lockstep::cli {

std::string NumaTable(const numa::Report& report);
OrderedJson NumaJson(const numa::Report& report, const std::vector<MachineFact>& facts);
// For the textfile collector of Prometheus' node_exporter.
std::string NumaPrometheus(const numa::Report& report);
// Triad and latency of every pair of nodes.
std::string NumaHeatMap(const numa::Report& report);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_MACHINE_NUMA_TEXT_H_
