// Saver: writes rank 0's checkpoints while training goes on, commits and reports them. A failure
// never ends training; the last good checkpoint stays.
#ifndef LOCKSTEP_WORKER_TRAINER_RUN_SAVER_H_
#define LOCKSTEP_WORKER_TRAINER_RUN_SAVER_H_

#include <atomic>

#include "base/time.h"
#include "worker/trainer/checkpoint/async_writer.h"
#include "worker/trainer/checkpoint/checkpoint.h"
#include "worker/trainer/run/checkpoint_line.h"

namespace lockstep::trainer {

class Saver {
 public:
  // `line` outlives this.
  Saver(CheckpointLine& line, const Shape& shape);

  // Begins to copy `state`, which must stay as it is until WaitForCopy() has returned; waits first
  // for a checkpoint that is still being written.
  void Save(ConstTrainingState state, const Manifest& manifest);
  void WaitForCopy() { writer_.WaitForCopy(); }
  // Until nothing is being written.
  void Wait();
  // Says how checkpoints ended since last time.
  void ReportEnded();
  // From Save() to the commit, of the last one that was committed; 0: none yet.
  Duration last_write() const { return last_write_; }

 private:
  CheckpointLine* line_;
  std::atomic<Time> begun_ = Time::zero();
  std::atomic<Duration> last_write_ = Duration::zero();
  AsyncWriter writer_;  // last: its thread uses the other members
};

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_RUN_SAVER_H_
