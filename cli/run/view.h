// What people are shown of a run, from what its operator sees. Pure functions.
#ifndef LOCKSTEP_CLI_RUN_VIEW_H_
#define LOCKSTEP_CLI_RUN_VIEW_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "cli/run/history.h"
#include "cli/run/outcome.h"
#include "cli/run/table.h"
#include "core/gang/bodies.h"
#include "core/gang/progress.h"
#include "core/model/spec.h"

namespace lockstep::cli {

// What is shown of a machine: its newest attempt.
struct ShownMachine {
  uint32_t attempt = 0;
  bool running = false;
  bool replaced = false;  // it is not the first
};

struct Shown {
  Time started{};
  bool stopping = false;
  std::vector<ShownMachine> machines;
  std::optional<core::GangStatus> gang;  // as machine 0 last told
};

TableView ViewOf(const core::TrainingJob& job, const Shown& shown, const History& history,
                 const core::RateMeter& rate, Time now);

// Why nothing runs, when that will last; "" otherwise.
std::string WaitingFor(const std::optional<core::GangStatus>& gang);

// "job gpt failed: rank 3 ...; ... (2 generations, 1.3 s)".
std::string ClosingLine(const core::TrainingJob& job, const Outcome& outcome,
                        const History& history, Duration took);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_RUN_VIEW_H_
