#include "worker/collectives/nccl/nccl_comm.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

#include "base/backoff.h"
#include "core/exit_codes.h"

namespace lockstep::collectives {
namespace {}  // namespace

NcclComm::NcclComm(std::shared_ptr<const NcclLibrary> library,
                   std::shared_ptr<const CudaDevice> device, Duration end_bound)
    : library_(std::move(library)), device_(std::move(device)), end_bound_(end_bound) {}

NcclComm::~NcclComm() {
  {
    MutexLock lock(&mutex_);
    if (comm_ == nullptr && !ending_) return;
    if (!ending_) StartEnding();
    while (!ended_) {
      const Duration left = end_by_ - BootTime();
      if (left <= Duration::zero()) break;
      changed_.wait_for(mutex_, left);
    }
    if (!ended_) {
      std::fprintf(stderr,
                   "lockstep: NCCL did not end its communicator within %lld ms; its threads cannot "
                   "be stopped, so this process leaves with exit code %d%s%s\n",
                   static_cast<long long>(duration_cast<milliseconds>(end_bound_).count()),
                   core::kExitPeerLost,
                   last_error_.empty() ? "" : ". Before that: ", last_error_.c_str());
      _exit(core::kExitPeerLost);
    }
  }
  helper_.join();
}

Result<nccl::Code> NcclComm::Enter(const std::function<nccl::Code()>& call) {
  {
    MutexLock lock(&mutex_);
    if (aborted_) return Aborted();
    inside_ = true;
  }
  // NCCL works on the thread's current device.
  Status entered = device_->Enter();
  const nccl::Code code = entered.ok() ? call() : nccl::Code::kSuccess;
  {
    MutexLock lock(&mutex_);
    inside_ = false;
  }
  changed_.notify_all();
  if (!entered.ok()) return entered.error();
  return code;
}

Error NcclComm::Failure(const std::string& what, nccl::Code code) const {
  return library_->Failure(what, code, comm_, device_->driver().version());
}

Status NcclComm::Note(Status status) {
  if (!status.ok()) last_error_ = status.error().message;
  return status;
}

Status NcclComm::Settle(const std::string& what, nccl::Code code, Time deadline) {
  const Time began = BootTime();
  DoublingPause pause(kFirstPause, kLongestPause);
  while (code == nccl::Code::kInProgress) {
    const Time now = BootTime();
    if (now > deadline)
      return Error::Timeout(what + " is not done at its deadline: a peer is late or gone");
    if (now - began > kSpin) {
      if (WaitForAbort(pause.Take())) return Aborted();
    }
    Result<nccl::Code> polled = Enter([&] {
      nccl::Code state = nccl::Code::kSuccess;
      const nccl::Code asked = library_->api().get_async_error(comm_, &state);
      return asked == nccl::Code::kSuccess ? state : asked;
    });
    if (!polled.ok()) return polled.error();
    code = *polled;
  }
  if (code != nccl::Code::kSuccess) return Failure(what, code);
  return {};
}

Status NcclComm::Init(int world, const nccl::UniqueId& id, int rank, Time deadline) {
  const std::string what =
      "ncclCommInitRankConfig of rank " + std::to_string(rank) + " of " + std::to_string(world);
  nccl::Config config;
  config.blocking = 0;
  Result<nccl::Code> code =
      Enter([&] { return library_->api().init_rank(&comm_, world, id, rank, &config); });
  if (!code.ok()) return code.error();
  return Note(Settle(what, *code, deadline));
}

Status NcclComm::Call(const std::string& what, Time deadline,
                      const std::function<nccl::Code(const nccl::Api&, nccl::Comm)>& function) {
  Result<nccl::Code> code = Enter([&] { return function(library_->api(), comm_); });
  if (!code.ok()) return code.error();
  return Note(Settle(what, *code, deadline));
}

Status NcclComm::Check() {
  nccl::Code now = nccl::Code::kSuccess;
  Result<nccl::Code> asked = Enter([&] { return library_->api().get_async_error(comm_, &now); });
  if (!asked.ok()) return asked.error();
  if (*asked != nccl::Code::kSuccess) return Failure("ncclCommGetAsyncError", *asked);
  if (now == nccl::Code::kSuccess || now == nccl::Code::kInProgress) return {};
  return Note(Failure("NCCL in the background", now));
}

bool NcclComm::WaitForAbort(Duration patience) {
  const Time until = BootTime() + patience;
  MutexLock lock(&mutex_);
  for (;;) {
    if (aborted_) return true;
    const Duration left = until - BootTime();
    if (left <= Duration::zero()) return false;
    changed_.wait_for(mutex_, left);
  }
}

void NcclComm::Abort() {
  {
    MutexLock lock(&mutex_);
    if (aborted_ || ending_) return;
    aborted_ = true;
    StartEnding();
  }
  changed_.notify_all();
}

void NcclComm::StartEnding() {
  ending_ = true;
  end_by_ = BootTime() + end_bound_;
  helper_ = std::thread([this] { End(); });
}

void NcclComm::End() {
  bool aborted = false;
  {
    MutexLock lock(&mutex_);
    while (inside_) changed_.wait(mutex_);
    aborted = aborted_;
  }
  if (comm_ != nullptr && device_->Enter().ok()) {
    if (aborted) {
      library_->api().abort(comm_);
    } else {
      EndInPeace();
    }
  }
  {
    MutexLock lock(&mutex_);
    ended_ = true;
  }
  changed_.notify_all();
}

// Finalize first: peers may still need what this rank's threads have not yet sent.
void NcclComm::EndInPeace() {
  const nccl::Api& api = library_->api();
  nccl::Code code = api.finalize(comm_);
  while (code == nccl::Code::kInProgress) {
    WaitForAbort(kLongestPause);
    if (api.get_async_error(comm_, &code) != nccl::Code::kSuccess) break;
  }
  if (code == nccl::Code::kSuccess) {
    api.destroy(comm_);
  } else {
    api.abort(comm_);
  }
}

}  // namespace lockstep::collectives
