// Where the agent finds the programs that ranks are.
#ifndef LOCKSTEP_WORKER_AGENT_PROCESSES_PROGRAM_H_
#define LOCKSTEP_WORKER_AGENT_PROCESSES_PROGRAM_H_

#include <string>
#include <variant>

#include "base/process/process.h"

namespace lockstep::agent {

// As FindExecutable, but lockstep-trainer is first looked for beside the agent, of whose release it
// is. In a pod the agent's folder holds none, and the image's PATH decides.
std::variant<std::string, SpawnFailure> FindProgram(const std::string& name,
                                                    const std::string& path,
                                                    const std::string& working_directory);

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_PROCESSES_PROGRAM_H_
