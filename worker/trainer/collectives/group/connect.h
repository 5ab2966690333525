// Makes a Communicator: rendezvous with the other ranks at rank 0's address, then the backend.
#ifndef LOCKSTEP_WORKER_TRAINER_COLLECTIVES_GROUP_CONNECT_H_
#define LOCKSTEP_WORKER_TRAINER_COLLECTIVES_GROUP_CONNECT_H_

#include <memory>

#include "base/result.h"
#include "worker/trainer/collectives/collectives.h"
#include "worker/trainer/collectives/options.h"

namespace lockstep::collectives {

// From RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, LOCKSTEP_JOB_UID,
// LOCKSTEP_GENERATION, GLOO_SOCKET_IFNAME. kInvalid names the variable. Without RANK: a world of
// one, which needs no address.
Result<Options> OptionsFromEnvironment();

// Blocks until all ranks are here, at most connect_timeout; kTimeout names those that are missing.
Result<std::unique_ptr<Communicator>> Connect(const Options& options);

// True once NCCL did not end a communicator whose work was done. Its threads run on, nothing on a
// GPU is freed any more and no communicator of this process works on, so main() leaves by _exit,
// with the code that it would have returned.
bool ThreadsLeftBehind();

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_WORKER_TRAINER_COLLECTIVES_GROUP_CONNECT_H_
