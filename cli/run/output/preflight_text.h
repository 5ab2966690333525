// What a job's machines measured before ranks ran (spec.preflight), in words.
#ifndef LOCKSTEP_CLI_RUN_OUTPUT_PREFLIGHT_TEXT_H_
#define LOCKSTEP_CLI_RUN_OUTPUT_PREFLIGHT_TEXT_H_

#include <string>
#include <vector>

#include "core/status/status.h"

namespace lockstep::cli {

// "preflight: passed; medians products 41.2 GFLOP/s, ...", and a line for each slow machine; none
// where nothing was measured.
std::vector<std::string> PreflightLines(const core::JobStatus& status);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_RUN_OUTPUT_PREFLIGHT_TEXT_H_
