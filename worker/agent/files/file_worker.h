// FileWorker: one thread for work on file systems that may stand still (NFS, FUSE), so that a slow
// file server delays a checkpoint and never a heartbeat. What the work returns is handed to the
// event loop's thread.
//
//   worker->Run([volume] { return volume.BeginGeneration(g); }, [this](auto result) { ... });
//
// Jobs run in order. Run() belongs to the loop's thread; a job may touch only what it was given.
#ifndef LOCKSTEP_WORKER_AGENT_FILES_FILE_WORKER_H_
#define LOCKSTEP_WORKER_AGENT_FILES_FILE_WORKER_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "base/loop/event_loop.h"
#include "base/loop/lifetime.h"
#include "base/result.h"
#include "base/thread_annotations.h"

namespace lockstep::agent {

class FileWorker {
 public:
  // Broken: this machine has no thread left.
  static Result<std::unique_ptr<FileWorker>> Create(EventLoop* loop);
  // Waits for the job under way; what is queued, and every answer, is dropped.
  ~FileWorker();
  FileWorker(const FileWorker&) = delete;
  FileWorker& operator=(const FileWorker&) = delete;

  template <typename Work, typename Done>
  void Run(Work work, Done done) {
    Queue([work = std::move(work), done = std::move(done)]() mutable -> Answer {
      return [result = work(), done = std::move(done)]() mutable { done(std::move(result)); };
    });
  }

 private:
  using Answer = std::function<void()>;
  using Job = std::function<Answer()>;

  explicit FileWorker(EventLoop* loop) : loop_(loop) {}
  void Queue(Job job);
  void Work();

  EventLoop* loop_;
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Job> jobs_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  Lifetime lifetime_;
  std::thread thread_;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_FILES_FILE_WORKER_H_
