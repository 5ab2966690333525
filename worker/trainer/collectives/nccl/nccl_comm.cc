#include "worker/trainer/collectives/nccl/nccl_comm.h"

#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <utility>

#include "base/backoff.h"
#include "base/thread.h"
#include "core/exit_codes.h"

namespace lockstep::collectives {
namespace {

Error Aborted() { return Error::Unavailable("NCCL was aborted"); }

}  // namespace

struct NcclComm::State {
  std::shared_ptr<const NcclLibrary> library;
  std::shared_ptr<const CudaDevice> device;
  const Duration end_bound;

  Mutex mutex;
  std::condition_variable_any changed;
  nccl::Comm comm = nullptr;  // written within Enter, read by the helper when nobody is inside
  bool inside GUARDED_BY(mutex) = false;
  bool aborted GUARDED_BY(mutex) = false;
  bool ending GUARDED_BY(mutex) = false;
  bool ended GUARDED_BY(mutex) = false;
  bool left_behind GUARDED_BY(mutex) = false;
  std::string last_error GUARDED_BY(mutex);

  State(std::shared_ptr<const NcclLibrary> its_library,
        std::shared_ptr<const CudaDevice> its_device, Duration bound)
      : library(std::move(its_library)), device(std::move(its_device)), end_bound(bound) {}

  bool Wait(Duration patience);
  void End(bool in_peace);
  void EndInPeace();
  void Bound(bool in_peace);
  void LeaveBehind(bool in_peace, const std::string& why) REQUIRES(mutex);
};

NcclComm::NcclComm(std::shared_ptr<const NcclLibrary> library,
                   std::shared_ptr<const CudaDevice> device, Duration end_bound)
    : state_(std::make_shared<State>(std::move(library), std::move(device), end_bound)) {}

NcclComm::~NcclComm() {
  State& state = *state_;
  bool left_behind = false;
  {
    const MutexLock lock(&state.mutex);
    if (state.comm == nullptr && !state.ending) return;
    if (!state.ending) {
      state.ending = true;
      const Status started = StartEnding(/*in_peace=*/true);
      if (!started.ok()) state.LeaveBehind(/*in_peace=*/true, started.error().message);
    }
    while (!state.ended && !state.left_behind) state.changed.wait(state.mutex);
    left_behind = state.left_behind;
  }
  if (bound_.joinable()) bound_.join();
  if (!helper_.joinable()) return;
  if (left_behind) {
    helper_.detach();
  } else {
    helper_.join();
  }
}

const NcclLibrary& NcclComm::library() const { return *state_->library; }

Result<nccl::Code> NcclComm::Enter(const std::function<nccl::Code()>& call) {
  State& state = *state_;
  {
    const MutexLock lock(&state.mutex);
    if (state.aborted) return Aborted();
    state.inside = true;
  }
  // NCCL works on the thread's current device.
  Status entered = state.device->Enter();
  const nccl::Code code = entered.ok() ? call() : nccl::Code::kSuccess;
  {
    const MutexLock lock(&state.mutex);
    state.inside = false;
  }
  state.changed.notify_all();
  if (!entered.ok()) return entered.error();
  return code;
}

Error NcclComm::Failure(const std::string& what, nccl::Code code) const {
  return library().Failure(what, code, state_->comm, state_->device->driver().version());
}

Status NcclComm::Note(Status status) {
  if (!status.ok()) {
    const MutexLock lock(&state_->mutex);
    state_->last_error = status.error().message;
  }
  return status;
}

Status NcclComm::Settle(const std::string& what, nccl::Code code, Time deadline) {
  const Time began = BootTime();
  DoublingPause pause(kFirstPause, kLongestPause);
  while (code == nccl::Code::kInProgress) {
    const Time now = BootTime();
    if (now > deadline)
      return Error::Timeout(what + " did not finish by its deadline: a peer is late or gone");
    if (now - began > kSpin) {
      if (WaitForAbort(pause.Take())) return Aborted();
    }
    Result<nccl::Code> polled = Enter([&] {
      nccl::Code state = nccl::Code::kSuccess;
      const nccl::Code asked = library().api().get_async_error(state_->comm, &state);
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
  library().ForgetLastWords();
  Result<nccl::Code> code =
      Enter([&] { return library().api().init_rank(&state_->comm, world, id, rank, &config); });
  if (!code.ok()) return code.error();
  return Note(Settle(what, *code, deadline));
}

Status NcclComm::Call(const std::string& what, Time deadline,
                      const std::function<nccl::Code(const nccl::Api&, nccl::Comm)>& function) {
  Result<nccl::Code> code = Enter([&] { return function(library().api(), state_->comm); });
  if (!code.ok()) return code.error();
  return Note(Settle(what, *code, deadline));
}

Status NcclComm::Check() {
  nccl::Code now = nccl::Code::kSuccess;
  Result<nccl::Code> asked =
      Enter([&] { return library().api().get_async_error(state_->comm, &now); });
  if (!asked.ok()) return asked.error();
  if (*asked != nccl::Code::kSuccess) return Failure("ncclCommGetAsyncError", *asked);
  if (now == nccl::Code::kSuccess || now == nccl::Code::kInProgress) return {};
  return Note(Failure("NCCL in the background", now));
}

bool NcclComm::WaitForAbort(Duration patience) { return state_->Wait(patience); }

void NcclComm::Abort() {
  {
    const MutexLock lock(&state_->mutex);
    if (state_->aborted) return;
    state_->aborted = true;
    if (!state_->ending) {
      state_->ending = true;
      const Status started = StartEnding(/*in_peace=*/false);
      if (!started.ok()) state_->LeaveBehind(/*in_peace=*/false, started.error().message);
    }
  }
  state_->changed.notify_all();
}

Status NcclComm::StartEnding(bool in_peace) {
  Result<std::thread> bound = StartThread([state = state_, in_peace] { state->Bound(in_peace); });
  if (!bound.ok()) return bound.error();
  bound_ = std::move(*bound);
  // Without it, the bound says what follows.
  Result<std::thread> helper = StartThread([state = state_, in_peace] { state->End(in_peace); });
  if (helper.ok()) helper_ = std::move(*helper);
  return {};
}

bool NcclComm::State::Wait(Duration patience) {
  const Time until = BootTime() + patience;
  const MutexLock lock(&mutex);
  for (;;) {
    if (aborted) return true;
    const Duration left = until - BootTime();
    if (left <= Duration::zero()) return false;
    changed.wait_for(mutex, left);
  }
}

void NcclComm::State::End(bool in_peace) {
  {
    const MutexLock lock(&mutex);
    while (inside) changed.wait(mutex);
  }
  if (comm != nullptr && device->Enter().ok()) {
    if (in_peace) {
      EndInPeace();
    } else {
      library->api().abort(comm);
    }
  }
  {
    const MutexLock lock(&mutex);
    ended = true;
  }
  changed.notify_all();
}

// Finalize first: peers may still need what this rank's threads have not yet sent.
void NcclComm::State::EndInPeace() {
  const nccl::Api& api = library->api();
  nccl::Code code = api.finalize(comm);
  while (code == nccl::Code::kInProgress && !Wait(kLongestPause)) {
    if (api.get_async_error(comm, &code) != nccl::Code::kSuccess) break;
  }
  if (code == nccl::Code::kSuccess) {
    api.destroy(comm);
  } else {
    api.abort(comm);
  }
}

void NcclComm::State::Bound(bool in_peace) {
  const Time until = BootTime() + end_bound;
  {
    const MutexLock lock(&mutex);
    for (Duration left = end_bound; !ended && left > Duration::zero(); left = until - BootTime()) {
      changed.wait_for(mutex, left);
    }
    if (ended) return;
    LeaveBehind(in_peace, "NCCL did not end its communicator within " +
                              std::to_string(duration_cast<milliseconds>(end_bound).count()) +
                              " ms");
  }
  changed.notify_all();
}

void NcclComm::State::LeaveBehind(bool in_peace, const std::string& why) {
  const std::string leaves =
      "this process leaves with exit code " + std::to_string(core::kExitPeerLost);
  std::fprintf(stderr, "lockstep: %s, and its threads cannot be stopped: %s%s%s\n", why.c_str(),
               in_peace ? "they are left behind, because all work was done" : leaves.c_str(),
               last_error.empty() ? "" : ". Before that: ", last_error.c_str());
  if (!in_peace) _exit(core::kExitPeerLost);
  CudaDevice::AbandonAll();
  left_behind = true;
}

}  // namespace lockstep::collectives
