// The report of a run, as JSON: what `--report FILE` holds: the job's status, with what only this
// computer knows beside its fields. docs/reference/cli.md lists them.
#ifndef LOCKSTEP_CLI_RUN_OUTPUT_REPORT_H_
#define LOCKSTEP_CLI_RUN_OUTPUT_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "base/wall_time.h"
#include "cli/run/output/history.h"
#include "core/status/status.h"

namespace lockstep::cli {

struct AgentReport {
  uint32_t machine = 0;
  uint32_t attempt = 0;
  WallTime ended{};
  std::optional<int> exit_code;
  int signal = 0;
};

// Its times count from the start of the run.
struct GenerationReport {
  core::GenerationRecord generation;
  std::optional<Recovery> respawn;
};

struct Report {
  std::string job;
  std::string job_uid;
  int exit_code = 0;  // of `lockstep run`
  Duration took{};
  core::JobStatus status;
  std::vector<GenerationReport> generations;
  std::vector<AgentReport> agents;
  std::string view = {};  // JSON of what the run's page showed last (docs/internals/page.md)
};

// Of generation `index` of a run that began at `started`; `until` as RecoveryOf has it.
GenerationReport ReportOf(const History& history, size_t index, Time started,
                          std::optional<Time> until);
std::string ToJson(const GenerationReport& report);
// Of all of them.
std::vector<GenerationReport> ReportOf(const History& history, Time started);

std::string ToJson(Report report);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_RUN_OUTPUT_REPORT_H_
