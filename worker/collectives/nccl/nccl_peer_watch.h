// Watches for lost ranks through the rendezvous while NCCL initialises, which does not notice them.
#ifndef LOCKSTEP_WORKER_COLLECTIVES_NCCL_NCCL_PEER_WATCH_H_
#define LOCKSTEP_WORKER_COLLECTIVES_NCCL_NCCL_PEER_WATCH_H_

#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "base/result.h"
#include "base/time.h"
#include "worker/collectives/transport.h"

namespace lockstep::collectives {

class NcclPeerWatch {
 public:
  // Calls `lost`, from a thread of its own, when the rendezvous loses a rank before Stop(). It
  // waits there for a key that nobody but Stop() sets; `key` must be this rank's own.
  NcclPeerWatch(Rendezvous& rendezvous, std::string key, Time deadline, std::function<void()> lost);
  ~NcclPeerWatch() { Stop(); }
  NcclPeerWatch(const NcclPeerWatch&) = delete;
  NcclPeerWatch& operator=(const NcclPeerWatch&) = delete;

  // What was lost, if anything.
  std::optional<Error> Stop();

 private:
  Rendezvous& rendezvous_;
  const std::string key_;
  std::optional<Error> error_;  // the thread's, until it is joined
  std::thread thread_;
};

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_WORKER_COLLECTIVES_NCCL_NCCL_PEER_WATCH_H_
