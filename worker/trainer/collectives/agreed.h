// An error that every rank comes to by itself, from what all have gathered.
#ifndef LOCKSTEP_WORKER_TRAINER_COLLECTIVES_AGREED_H_
#define LOCKSTEP_WORKER_TRAINER_COLLECTIVES_AGREED_H_

#include "base/result.h"
#include "worker/trainer/collectives/collectives.h"

namespace lockstep::collectives {

// `error`, once all have come to it and have said that they leave: to those who had not, the first
// who left would be the failure.
inline Error Agreed(Error error, Communicator& all) {
  static_cast<void>(all.Barrier("all know why they leave").ok() && all.Finish().ok());
  return error;
}

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_WORKER_TRAINER_COLLECTIVES_AGREED_H_
