// LocalOperator: the operator of one job, on this computer, behind `lockstep run`. It sees
// (signals, agents' ends, the coordinator's status), has Decide say what follows, and carries that
// out. One thread, one loop.
#ifndef LOCKSTEP_CLI_RUN_LOCAL_OPERATOR_H_
#define LOCKSTEP_CLI_RUN_LOCAL_OPERATOR_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/run/machines/nodes.h"
#include "cli/run/run_state.h"
#include "cli/sync/code_sync.h"
#include "cli/ui/bindings.h"
#include "core/model/spec.h"

namespace lockstep::cli {

// Between two questions for the gang's status. Each machine's steps change it twice a second; with
// many machines people read slower, and an answer takes longer to read. None for up to 8 machines.
Duration StatusPause(int machines);

struct RunOptions {
  std::string agent;                         // path of lockstep-agent
  Nodes nodes;                               // where it runs; as many as machines
  std::string report;                        // file for the report; "": none
  std::string status;                        // file for the status while the job runs; "": none
  std::string tensorboard;                   // folder for event files; "": none
  std::vector<std::string> show;             // named figures with a column in the table
  bool wide = false;                         // the table has what machines use
  std::string unschedulable;                 // file: the machines that get no place; "": none
  std::optional<uint16_t> ui;                // port of the page; 0: a free one; absent: no page
  std::shared_ptr<const Bindings> bindings;  // for page and report; null on other computers
  bool namespaces = true;                    // PID namespaces where they are allowed
  bool table = true;                         // a live table when stderr is a terminal
  bool verbose = false;                      // agents' own logs
  std::shared_ptr<CodeSync> sync;            // null: the ranks' code is not synced
  Time started{};                            // when the user asked
  std::chrono::system_clock::time_point started_wall;  // the same moment, for the report
};

// Runs the job to its end. The exit code of `lockstep run`; an Error when it could not be begun.
Result<int> RunJob(const core::TrainingJob& job, RunState state, const RunOptions& options);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_RUN_LOCAL_OPERATOR_H_
