// What this computer offers, as far as warnings and plans need it.
#ifndef LOCKSTEP_CLI_COMPUTER_H_
#define LOCKSTEP_CLI_COMPUTER_H_

#include <string>

namespace lockstep::cli {

struct Computer {
  int cores = 1;  // that this process may use, within the CPU quota; at least 1
  int gpus = 0;
};

Computer LookAround();

// "2 cores, no GPU"
std::string ToString(const Computer& computer);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_COMPUTER_H_
