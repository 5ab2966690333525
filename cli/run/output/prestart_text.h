// What a job's parked interpreters (docs/guides/prestart.md) are worth, in words.
#ifndef LOCKSTEP_CLI_RUN_OUTPUT_PRESTART_TEXT_H_
#define LOCKSTEP_CLI_RUN_OUTPUT_PRESTART_TEXT_H_

#include <string>

#include "core/status/status.h"

namespace lockstep::cli {

// "parked interpreters: 7 of 8 ready (machine 1: ...); generations begun: 2 warm, 1 cold; 3.4 s of
// imports saved". Of a job that does not run, without what is ready. "": the job has none.
std::string PrestartLine(const core::JobStatus& status);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_RUN_OUTPUT_PRESTART_TEXT_H_
