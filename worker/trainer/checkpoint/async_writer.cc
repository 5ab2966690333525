#include "worker/trainer/checkpoint/async_writer.h"

#include <algorithm>
#include <cassert>
#include <csignal>
#include <utility>

#include "base/thread.h"
#include "worker/trainer/checkpoint/prune.h"

namespace lockstep::trainer {

AsyncWriter::AsyncWriter(const Shape& shape, Commit commit)
    : shape_(shape),
      commit_(std::move(commit)),
      parameters_(ParameterCount(shape)),
      moment1_(parameters_.size()),
      moment2_(parameters_.size()) {
  // This thread inherits a full mask, so that signals go to the training thread.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  Result<std::thread> thread = StartThread([this] { Run(); });
  if (thread.ok()) thread_ = std::move(*thread);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

AsyncWriter::~AsyncWriter() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Status AsyncWriter::BeginCopy(const std::string& folder, ConstTrainingState state,
                              const Manifest& manifest) {
  assert(state.parameters.size() == parameters_.size());
  assert(state.moment1.size() == moment1_.size() && state.moment2.size() == moment2_.size());
  {
    MutexLock lock(&mutex_);
    if (job_) {
      return Error::Conflict("the checkpoint of step " + std::to_string(manifest.step) +
                             " is left out, because the last one is still being written; save less "
                             "often, or to a faster volume");
    }
    job_ = Job{folder, state, manifest};
    copied_ = false;
  }
  changed_.notify_all();
  if (!thread_.joinable()) Serve(Job{folder, state, manifest});
  return {};
}

void AsyncWriter::WaitForCopy() {
  MutexLock lock(&mutex_);
  while (!copied_) changed_.wait(mutex_);
}

Status AsyncWriter::Begin(const std::string& folder, ConstTrainingState state,
                          const Manifest& manifest) {
  Status begun = BeginCopy(folder, state, manifest);
  if (begun.ok()) WaitForCopy();
  return begun;
}

bool AsyncWriter::busy() const {
  MutexLock lock(&mutex_);
  return job_.has_value();
}

std::optional<Result<std::string>> AsyncWriter::Poll() {
  MutexLock lock(&mutex_);
  if (results_.empty()) return std::nullopt;
  Result<std::string> result = std::move(results_.front());
  results_.pop_front();
  return result;
}

std::optional<Result<std::string>> AsyncWriter::Wait() {
  {
    MutexLock lock(&mutex_);
    while (job_) changed_.wait(mutex_);
  }
  return Poll();
}

void AsyncWriter::Run() {
  for (;;) {
    Job job;
    {
      MutexLock lock(&mutex_);
      while (!job_ && !stopping_) changed_.wait(mutex_);
      if (!job_) return;
      job = *job_;
    }
    Serve(job);
  }
}

void AsyncWriter::Serve(const Job& job) {
  Copy(job.state);
  {
    MutexLock lock(&mutex_);
    copied_ = true;
  }
  changed_.notify_all();
  Result<std::string> result = Write(job);
  {
    MutexLock lock(&mutex_);
    results_.push_back(std::move(result));
    job_.reset();
  }
  changed_.notify_all();
}

void AsyncWriter::Copy(const ConstTrainingState& state) {
  std::ranges::copy(state.parameters, parameters_.begin());
  std::ranges::copy(state.moment1, moment1_.begin());
  std::ranges::copy(state.moment2, moment2_.begin());
}

Result<std::string> AsyncWriter::Write(const Job& job) const {
  Status written =
      WriteCheckpoint(job.folder, shape_, {parameters_, moment1_, moment2_}, job.manifest);
  if (!written.ok()) return written.error();
  Result<std::string> committed = commit_(job.folder);
  if (!committed.ok()) Prune({job.folder}, 0);
  return committed;
}

}  // namespace lockstep::trainer
