// What a generation's launcher (mpirun) finds on machine 0 in place of ssh and of a host list:
//
//   FOLDER/rsh          a remote shell: `rsh [options] HOST WORDS...` (remote_shell.h)
//   FOLDER/hosts        the machines as Open MPI writes them: "gpt-1 slots=2"
//   FOLDER/hosts.hydra  as MPICH and Intel MPI do: "gpt-1:2"
//
// Machine 0 stands there under the name that it has for itself, for launchers start no daemon where
// they are; the others under the names of their machines, which need not resolve.
#ifndef LOCKSTEP_WORKER_AGENT_RANK_SOCKET_LAUNCHER_FOLDER_H_
#define LOCKSTEP_WORKER_AGENT_RANK_SOCKET_LAUNCHER_FOLDER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "core/model/spec.h"
#include "core/terms/generation.h"

namespace lockstep::agent {

// Makes RUN_DIR/mpi/GENERATION, for this user alone, in place of the last generation's. `program`
// is the agent's file, `socket` where it answers its processes.
Result<std::string> MakeLauncherFolder(const std::string& run_dir, core::Generation generation,
                                       const core::TrainingJob& job, const std::string& program,
                                       const std::string& socket);

// The machine of that name in such a list; none: it is not in it, or is machine 0.
std::optional<uint32_t> MachineNamed(const core::TrainingJob& job, std::string_view host);

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_RANK_SOCKET_LAUNCHER_FOLDER_H_
