#include "worker/agent/ranks/file_worker.h"

#include <csignal>
#include <memory>

namespace lockstep::agent {

Result<std::unique_ptr<FileWorker>> FileWorker::Create(EventLoop* loop) {
  std::unique_ptr<FileWorker> worker(new FileWorker(loop));
  FileWorker* raw = worker.get();
  // Signals are the loop's: the thread inherits a full mask.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  raw->thread_ = std::thread([raw] { raw->Work(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
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
