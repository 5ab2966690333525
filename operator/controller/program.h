// Program: the operator's parts put together, from its options to its end.
#ifndef LOCKSTEP_OPERATOR_CONTROLLER_PROGRAM_H_
#define LOCKSTEP_OPERATOR_CONTROLLER_PROGRAM_H_

#include "operator/controller/options.h"

namespace lockstep::control {

// Runs until SIGTERM or SIGINT (0), or until the Lease is lost (1). 2: it could not begin.
int RunOperator(const Options& options);

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_CONTROLLER_PROGRAM_H_
