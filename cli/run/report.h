// The report of a run, as JSON: what `--report FILE` holds. docs/cli.md lists its fields.
#ifndef LOCKSTEP_CLI_RUN_REPORT_H_
#define LOCKSTEP_CLI_RUN_REPORT_H_

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "cli/run/history.h"
#include "cli/run/outcome.h"

namespace lockstep::cli {

struct MachineEnd {
  uint32_t machine = 0;
  uint32_t attempt = 0;
  int exit_code = -1;
  int signal = 0;
  Time at{};
};

struct Report {
  std::string job;
  std::string job_uid;
  int num_machines = 0;
  int processes_per_machine = 0;
  uint32_t epoch = 0;
  std::chrono::system_clock::time_point started_wall;
  Time started{};
  Time finished{};
  Outcome outcome;
  core::Counters counters;
  History history;
  std::vector<MachineEnd> ends;  // of every agent
};

std::string ToJson(const Report& report);

// How often the gang was started again, by the cause of the generation that ended.
std::vector<std::pair<core::Cause, int>> RestartsByCause(const History& history);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_RUN_REPORT_H_
