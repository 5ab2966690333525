// StopSignal: takes SIGTERM as a flag that can be polled. It asks all ranks to save the same step
// and leave.
#ifndef LOCKSTEP_WORKER_TRAINER_PROCESS_STOP_SIGNAL_H_
#define LOCKSTEP_WORKER_TRAINER_PROCESS_STOP_SIGNAL_H_

#include "base/unique_fd.h"

namespace lockstep::trainer {

class StopSignal {
 public:
  // Blocks SIGTERM in this thread and those it starts: make it before any.
  StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // Whether SIGTERM has come.
  bool Asked();

 private:
  UniqueFd fd_;
  bool asked_ = false;
};

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_PROCESS_STOP_SIGNAL_H_
