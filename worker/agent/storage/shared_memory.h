// SharedMemory: what a generation's ranks left in /dev/shm by shm_open and sem_open (files of its
// own level, for their names hold no slash), of which a killed one removes nothing: 16 MB a rank of
// Open MPI's. Folders are left alone, as is all that was there before the generation.
//
// Whose file it is can't be told. So this is only for a /dev/shm of this machine's alone, where
// nobody but its ranks, and whoever runs commands beside them, makes any.
#ifndef LOCKSTEP_WORKER_AGENT_STORAGE_SHARED_MEMORY_H_
#define LOCKSTEP_WORKER_AGENT_STORAGE_SHARED_MEMORY_H_

#include <sys/types.h>

#include <set>
#include <string>
#include <utility>

#include "core/plan/agent_config.h"

namespace lockstep::agent {

class SharedMemory {
 public:
  // `own`: it is this machine's alone; else nothing is done.
  explicit SharedMemory(bool own, std::string folder = "/dev/shm", std::string proc = "/proc")
      : own_(own), folder_(std::move(folder)), proc_(std::move(proc)) {}

  // What is there now stays.
  void BeginGeneration();
  // All ranks are dead. Removes what is new, this user's, and neither open nor mapped in any
  // process but those of `ours`; nothing where some process can't be looked into. How many files.
  int Sweep(const std::set<pid_t>& ours) const;

 private:
  bool own_;
  std::string folder_;
  std::string proc_;
  std::set<ino_t> known_;
};

// Of a pod: the job has `sharedMemory`, of which the operator tells agents only where no other
// container has it. With `lockstep run`: this mount is the machine's (worker/place/spawn.h).
bool HasOwnSharedMemory(const core::AgentConfig& config,
                        const std::string& mounts = "/proc/self/mounts");

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_STORAGE_SHARED_MEMORY_H_
