// A job's ledger, in words: where its machines' time went.
#ifndef LOCKSTEP_CLI_RUN_OUTPUT_LEDGER_TEXT_H_
#define LOCKSTEP_CLI_RUN_OUTPUT_LEDGER_TEXT_H_

#include <string>
#include <vector>

#include "base/wall_time.h"
#include "core/status/status.h"

namespace lockstep::cli {

// "machine time 12m03s, 97.3% productive; lost: start-up 12.0 s, redone steps 5.1 s" and, if
// something failed, "lost to: MachineLost 10.0 s, the first start 2.0 s; a failure every 3m10s".
// Of a job that has reported no step: "productivity unknown". Empty below a minute. `now` counts
// only in a job that runs and reports nothing: it has run until then.
std::vector<std::string> LedgerLines(const core::JobStatus& status, WallTime now);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_RUN_OUTPUT_LEDGER_TEXT_H_
