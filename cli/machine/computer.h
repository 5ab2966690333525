// What `lockstep plan` and `run` say of the computer they run on.
#ifndef LOCKSTEP_CLI_MACHINE_COMPUTER_H_
#define LOCKSTEP_CLI_MACHINE_COMPUTER_H_

#include <string>

#include "worker/topology/topology.h"

namespace lockstep::cli {

struct Computer {
  int cores = 1;  // within cpuset and quota
  int gpus = 0;   // as CUDA_VISIBLE_DEVICES and its like let a process see them
  topology::Machine machine;
};

Computer LookAround();

// "2 cores, no GPU", "12 cores, 8 GPUs".
std::string ToString(const Computer& computer);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_MACHINE_COMPUTER_H_
