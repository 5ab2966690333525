#include "worker/collectives/nccl/nccl_peer_watch.h"

#include <utility>

namespace lockstep::collectives {

NcclPeerWatch::NcclPeerWatch(Rendezvous& rendezvous, std::string key, Time deadline,
                             std::function<void()> lost)
    : rendezvous_(rendezvous), key_(std::move(key)) {
  // Alone, there is nobody to lose.
  if (rendezvous_.world() == 1) return;
  thread_ = std::thread([this, deadline, lost = std::move(lost)] {
    Result<std::string> value = rendezvous_.Get(key_, deadline);
    if (value.ok() || value.error().kind == ErrorKind::kTimeout) return;
    error_ = value.error();
    lost();
  });
}

std::optional<Error> NcclPeerWatch::Stop() {
  if (!thread_.joinable()) return error_;
  // Where this fails, Get fails too.
  [[maybe_unused]] const Status set = rendezvous_.Set(key_, "");
  thread_.join();
  return error_;
}

}  // namespace lockstep::collectives
