// How a run ended, from the job's status: what its last line and its exit code say. Of a status
// that is Succeeded or Failed, or Suspended because a signal came. Pure functions.
#ifndef LOCKSTEP_CLI_RUN_OUTPUT_OUTCOME_H_
#define LOCKSTEP_CLI_RUN_OUTPUT_OUTCOME_H_

#include <string>
#include <vector>

#include "base/time.h"
#include "core/status/status.h"

namespace lockstep::cli {

// What ended the job; cause kNone where it succeeded.
core::Failure EndingOf(const core::JobStatus& status);

// Of `lockstep run`; `signal` asked for the stop, if there was one.
int ExitCodeOf(const core::JobStatus& status, int signal);

// "job gpt failed: rank 3 ...; ... (2 generations, 1.3 s)".
std::string ClosingLine(const std::string& job, const core::JobStatus& status, size_t generations,
                        Duration took);

// What the process that is the root cause said last, marked; none where it said nothing. Below
// everything else: ranks that lost it may have said more, and later.
std::vector<std::string> LastWordsLines(const core::Failure& ending);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_RUN_OUTPUT_OUTCOME_H_
