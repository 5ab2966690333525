// How a run ended, from the job's status: what its last line, its report and its exit code say.
#ifndef LOCKSTEP_CLI_RUN_OUTCOME_H_
#define LOCKSTEP_CLI_RUN_OUTCOME_H_

#include <string>

#include "core/status/status.h"

namespace lockstep::cli {

struct Outcome {
  core::JobState state = core::JobState::kFailed;
  int exit_code = 0;  // of `lockstep run`
  std::string reason;
  core::Failure failure;        // cause kNone when there is none
  core::Generation generation;  // the verdict's; {0, 0} without one

  friend bool operator==(const Outcome&, const Outcome&) = default;
};

// Of a status that is Succeeded or Failed, or Suspended because `signal` came.
Outcome OutcomeOf(const core::JobStatus& status, int signal);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_RUN_OUTCOME_H_
