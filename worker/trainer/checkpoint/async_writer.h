// Writes checkpoints from a copy, in a thread of its own, while training goes on.
//
//   AsyncWriter writer(shape, [&](const std::string& folder) { return line.Commit(folder); });
//   Status begun = writer.Begin(folder, state, manifest);  // returns once the copy is made
//   ...
//   if (auto done = writer.Poll(); done && !done->ok()) Warn(done->error());
//
// The copy's memory, 12 bytes a parameter, is taken and touched at construction, so that training
// stalls for no more than the copying. From one thread, except for what `commit` does.
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

  // Copies `state`, and begins to write it. kConflict: the last one is still being written; leave
  // this one out, or Wait() first.
  Status Begin(const std::string& folder, ConstTrainingState state, const Manifest& manifest);

  bool busy() const;

  // How one that was begun ended, each told once, the oldest first: what `commit` returned, or why
  // the writing failed. nullopt: nothing new.
  std::optional<Result<std::string>> Poll();
  // The same, once nothing is under way.
  std::optional<Result<std::string>> Wait();

 private:
  struct Job {
    std::string folder;
    Manifest manifest;
  };

  void Run();
  Result<std::string> Write(const Job& job) const;

  const Shape shape_;
  const Commit commit_;
  // Written by Begin() while there is no job, read by the thread while there is one.
  std::vector<float> parameters_;
  std::vector<float> moment1_;
  std::vector<float> moment2_;

  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  std::optional<Job> job_ GUARDED_BY(mutex_);
  std::deque<Result<std::string>> results_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_CHECKPOINT_ASYNC_WRITER_H_
