// Writes checkpoints from a copy, in a thread of its own, while training goes on. If the system has
// no thread left, BeginCopy() does all of it, and training waits.
//
//   AsyncWriter writer(shape, [&](const std::string& folder) { return line.Commit(folder); });
//   Status begun = writer.BeginCopy(folder, state, manifest);
//   ...                     // the next step's forward and backward: they only read the state
//   writer.WaitForCopy();   // and its optimizer writes it
//   if (auto done = writer.Poll(); done && !done->ok()) Warn(done->error());
//
// The copy's memory, 12 bytes a parameter, is taken and touched at construction. From one thread,
// except for what `commit` does.
#ifndef LOCKSTEP_WORKER_TRAINER_CHECKPOINT_ASYNC_WRITER_H_
#define LOCKSTEP_WORKER_TRAINER_CHECKPOINT_ASYNC_WRITER_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "base/thread_annotations.h"
#include "worker/trainer/checkpoint/checkpoint.h"

namespace lockstep::trainer {

class AsyncWriter {
 public:
  // Called on the writer's thread when all of `folder` is on the disk: makes it count, and returns
  // where it is then. After an error the folder is removed, if it still is where it was.
  using Commit = std::function<Result<std::string>(const std::string& folder)>;

  AsyncWriter(const Shape& shape, Commit commit);
  // Waits for what is under way.
  ~AsyncWriter();
  AsyncWriter(const AsyncWriter&) = delete;
  AsyncWriter& operator=(const AsyncWriter&) = delete;

  // Begins to copy `state`, which must stay as it is until WaitForCopy() has returned, and then to
  // write it. kConflict: the last one is still being written; leave this one out, or Wait() first.
  Status BeginCopy(const std::string& folder, ConstTrainingState state, const Manifest& manifest);
  void WaitForCopy();
  // Both.
  Status Begin(const std::string& folder, ConstTrainingState state, const Manifest& manifest);

  bool busy() const;

  // The result of a checkpoint, each once and the oldest first: what `commit` returned, or why the
  // writing failed. nullopt: nothing new.
  std::optional<Result<std::string>> Poll();
  // The same, once nothing is under way.
  std::optional<Result<std::string>> Wait();

 private:
  struct Job {
    std::string folder;
    ConstTrainingState state;  // the trainer's, until it is copied
    Manifest manifest;
  };

  void Run();
  void Serve(const Job& job);
  void Copy(const ConstTrainingState& state);
  Result<std::string> Write(const Job& job) const;

  const Shape shape_;
  const Commit commit_;
  // The thread's.
  std::vector<float> parameters_;
  std::vector<float> moment1_;
  std::vector<float> moment2_;

  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  std::optional<Job> job_ GUARDED_BY(mutex_);
  std::deque<Result<std::string>> results_ GUARDED_BY(mutex_);
  bool copied_ GUARDED_BY(mutex_) = true;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::thread thread_;  // none: the system had none left
};

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_CHECKPOINT_ASYNC_WRITER_H_
