// Why a Communicator ended, and which rank is to blame.
#ifndef LOCKSTEP_WORKER_TRAINER_COLLECTIVES_STORE_FAILURE_H_
#define LOCKSTEP_WORKER_TRAINER_COLLECTIVES_STORE_FAILURE_H_

#include "base/result.h"

namespace lockstep::collectives {

// What a rank's error is to the others: their machines are not the broken one.
inline Error AtPeers(Error error) {
  if (error.kind == ErrorKind::kBroken) error.kind = ErrorKind::kUnavailable;
  return error;
}

struct Failure {
  Error error;
  int rank = -1;  // to blame; -1: not known
};

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_WORKER_TRAINER_COLLECTIVES_STORE_FAILURE_H_
