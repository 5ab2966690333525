// Gloo's full mesh of TCP connections. Another thread can end every wait on it.
//
// Closing Gloo's connections does not wake a thread that waits for a buffer; aborting the wait
// does. So this context keeps a list of all buffers that it hands out, to Lockstep and to Gloo's
// own algorithms, and Abort() ends all their waits.
#ifndef LOCKSTEP_WORKER_TRAINER_COLLECTIVES_GLOO_GLOO_MESH_H_
#define LOCKSTEP_WORKER_TRAINER_COLLECTIVES_GLOO_GLOO_MESH_H_

#include <gloo/rendezvous/context.h>
#include <gloo/transport/context.h>
#include <gloo/transport/device.h>

#include <memory>
#include <set>
#include <vector>

#include "base/result.h"
#include "base/thread_annotations.h"
#include "base/time.h"
#include "worker/trainer/collectives/options.h"
#include "worker/trainer/collectives/transport.h"

namespace lockstep::collectives {

// Thread-safe.
class AbortSwitch {
 public:
  // False after Abort(): then `buffer` is not remembered and must not wait.
  bool Add(gloo::transport::UnboundBuffer* buffer);
  void Remove(gloo::transport::UnboundBuffer* buffer);
  void Abort();
  bool aborted() const;

 private:
  mutable Mutex mutex_;
  bool aborted_ GUARDED_BY(mutex_) = false;
  std::set<gloo::transport::UnboundBuffer*> buffers_ GUARDED_BY(mutex_);
};

// Buffers of this context throw gloo::IoException out of their waits once the switch is thrown.
class GlooMesh final : public gloo::rendezvous::Context {
 public:
  // Connects all ranks, the addresses exchanged through `rendezvous`. Unavailable or Timeout.
  static Result<std::shared_ptr<GlooMesh>> Connect(const Options& options, Rendezvous& rendezvous,
                                                   Time deadline);

  AbortSwitch& abort_switch() { return *switch_; }
  // "lo", or the address where the interface has no name of its own.
  const std::string& interface() const { return interface_; }

 private:
  GlooMesh(int rank, int world, std::string interface);

  const std::shared_ptr<AbortSwitch> switch_;
  const std::string interface_;
};

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_WORKER_TRAINER_COLLECTIVES_GLOO_GLOO_MESH_H_
