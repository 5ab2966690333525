#include "worker/agent/files/file_worker.h"

#include <csignal>
#include <memory>
#include <utility>

#include "base/thread.h"

namespace lockstep::agent {

Result<std::unique_ptr<FileWorker>> FileWorker::Create(EventLoop* loop) {
  std::unique_ptr<FileWorker> worker(new FileWorker(loop));
  FileWorker* raw = worker.get();
  // Signals are the loop's: the thread inherits a full mask.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  Result<std::thread> thread = StartThread([raw] { raw->Work(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!thread.ok()) return Error{ErrorKind::kBroken, thread.error().message};
  raw->thread_ = std::move(*thread);
  return worker;
}

FileWorker::~FileWorker() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    jobs_.clear();
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void FileWorker::Queue(Job job) {
  {
    MutexLock lock(&mutex_);
    jobs_.push_back(std::move(job));
  }
  changed_.notify_one();
}

void FileWorker::Work() {
  for (;;) {
    Job job;
    {
      MutexLock lock(&mutex_);
      while (jobs_.empty() && !stopping_) changed_.wait(mutex_);
      if (stopping_) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    loop_->PostFromAnyThread(lifetime_.Guard(job()));
  }
}

}  // namespace lockstep::agent
