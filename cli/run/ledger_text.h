// A job's ledger, in words: where its machines' time went.
#ifndef LOCKSTEP_CLI_RUN_LEDGER_TEXT_H_
#define LOCKSTEP_CLI_RUN_LEDGER_TEXT_H_

#include <string>
#include <vector>

#include "core/status/status.h"

namespace lockstep::cli {

// "12m03s of machine time, 97.3% productive; lost: 12 s start-up, 5.1 s redone" and, where
// something failed, "lost to MachineLost 10 s, the first start 2.0 s; a failure every 3m10s".
// Nothing where nothing is accounted for.
std::vector<std::string> LedgerLines(const core::JobStatus& status);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_RUN_LEDGER_TEXT_H_
