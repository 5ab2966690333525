// What people are shown of a run, from what its operator sees. Pure functions.
#ifndef LOCKSTEP_CLI_RUN_VIEW_H_
#define LOCKSTEP_CLI_RUN_VIEW_H_

#include <string>

#include "base/time.h"
#include "cli/run/decide.h"
#include "cli/run/history.h"
#include "cli/run/table.h"
#include "core/gang/progress.h"
#include "core/model/spec.h"

namespace lockstep::cli {

TableView ViewOf(const core::TrainingJob& job, const Snapshot& snapshot, const History& history,
                 const core::RateMeter& rate, Time now);

// Why nothing runs, when that will last; "" otherwise.
std::string WaitingFor(const Snapshot& snapshot);

// "job gpt failed: rank 3 ...; ... (2 generations, 1.3 s)".
std::string ClosingLine(const core::TrainingJob& job, const Outcome& outcome,
                        const History& history, Duration took);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_RUN_VIEW_H_
