// Names of jobs for completion: of runs on this computer, and of a cluster.
#ifndef LOCKSTEP_CLI_PROGRAMS_KNOWN_JOBS_H_
#define LOCKSTEP_CLI_PROGRAMS_KNOWN_JOBS_H_

#include <string>
#include <vector>

namespace lockstep::cli {

// This user's runs on this computer. It has no use for the options.
std::vector<std::string> RunsHere(const std::vector<std::string>& options);

// The first column of `lockstep list OPTIONS`. Empty if the cluster has not answered within 3 s,
// because a person waits at a prompt.
std::vector<std::string> JobsOfCluster(const std::vector<std::string>& options);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_PROGRAMS_KNOWN_JOBS_H_
