#include "worker/agent/file_worker.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>

namespace lockstep::agent {

Result<std::unique_ptr<FileWorker>> FileWorker::Create(EventLoop* loop) {
  std::unique_ptr<FileWorker> worker(new FileWorker(loop));
  worker->wake_.reset(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!worker->wake_.valid()) return ErrnoError("eventfd", errno);
  FileWorker* raw = worker.get();
  Status watched = loop->Watch(raw->wake_.get(), EPOLLIN, [raw](uint32_t) { raw->Deliver(); });
  if (!watched.ok()) return watched.error();
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
  if (wake_.valid()) loop_->Unwatch(wake_.get());
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
    Answer answer = job();
    {
      MutexLock lock(&mutex_);
      answers_.push_back(std::move(answer));
    }
    uint64_t one = 1;
    // An eventfd takes 2^64 - 2 of these before it would be full.
    [[maybe_unused]] ssize_t written = write(wake_.get(), &one, sizeof(one));
  }
}

void FileWorker::Deliver() {
  uint64_t count = 0;
  [[maybe_unused]] ssize_t got = read(wake_.get(), &count, sizeof(count));
  std::vector<Answer> answers;
  {
    MutexLock lock(&mutex_);
    answers.swap(answers_);
  }
  for (Answer& answer : answers) answer();
}

}  // namespace lockstep::agent
