// Saver: writes rank 0's checkpoints while training goes on, commits and reports them. A failure
// never ends training; the last good checkpoint stays.
#ifndef LOCKSTEP_WORKER_TRAINER_SAVING_SAVER_H_
#define LOCKSTEP_WORKER_TRAINER_SAVING_SAVER_H_

#include <atomic>
#include <string>
#include <thread>

#include "base/time.h"
#include "worker/trainer/checkpoint/async_writer.h"
#include "worker/trainer/checkpoint/checkpoint.h"
#include "worker/trainer/saving/checkpoint_line.h"

namespace lockstep::trainer {

class Saver {
 public:
  // `line` outlives this.
  Saver(CheckpointLine& line, const Shape& shape);

  // Begins to copy `state`, which must stay as it is until WaitForCopy() has returned; waits first
  // for a checkpoint that is still being written. `in_memory`: to where the line has it in memory.
  void Save(ConstTrainingState state, const Manifest& manifest, bool in_memory);
  void WaitForCopy() { writer_.WaitForCopy(); }
  // Until nothing is being written.
  void Wait();
  // Says how checkpoints ended since last time.
  void ReportEnded();
  bool busy() const { return writer_.busy(); }
  // From Save() to the commit, of the last one on disk that was committed; 0: none yet.
  Duration last_write() const { return last_write_; }
  // The same in memory, refused ones among them.
  Duration last_memory_write() const { return last_memory_write_; }

 private:
  void Say(const Result<std::string>& ended);

  CheckpointLine* line_;
  std::atomic<Time> begun_ = Time::zero();
  std::atomic<Duration> last_write_ = Duration::zero();
  std::atomic<Duration> last_memory_write_ = Duration::zero();
  std::string said_;    // why the last one was not kept
  AsyncWriter writer_;  // last: its thread uses the other members
};

// Another machine's part of rank 0's checkpoints in memory, by one rank of that machine. All ranks
// have the same state, so it is empty; a commit wants one of every machine.
class EmptyPart {
 public:
  // `line` outlives this.
  explicit EmptyPart(const CheckpointLine& line) : line_(&line) {}
  ~EmptyPart();
  EmptyPart(const EmptyPart&) = delete;
  EmptyPart& operator=(const EmptyPart&) = delete;

  // Begins to commit it; waits first for the last one.
  void Commit(int64_t step);

 private:
  const CheckpointLine* line_;
  std::thread committing_;
};

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_SAVING_SAVER_H_
