// The text of `lockstep why`: what ended a job or its last generation, which budget
// it is charged to, and what to do. Pure.
#ifndef LOCKSTEP_CLI_CLUSTER_WHY_TEXT_H_
#define LOCKSTEP_CLI_CLUSTER_WHY_TEXT_H_

#include <string>

#include "cli/cluster/jobs.h"

namespace lockstep::cli {

// `options`: those that the commands which it proposes need to find the job, or "". Control
// characters in texts of others are made harmless for the terminal.
std::string WhyText(const StoredJob& job, const std::string& options);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_CLUSTER_WHY_TEXT_H_
