// Options: what one rank of a Communicator is told.
#ifndef LOCKSTEP_WORKER_TRAINER_COLLECTIVES_OPTIONS_H_
#define LOCKSTEP_WORKER_TRAINER_COLLECTIVES_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "core/model/trainer.h"
#include "worker/trainer/collectives/cuda/slice_sum.h"

namespace lockstep::collectives {

using core::Backend;

struct Options {
  int rank = 0;
  int world = 1;
  int local_rank = 0;          // which GPU
  int local_world = 1;         // ranks of this machine
  std::string master_address;  // an IP; rank 0 listens there
  uint16_t master_port = 0;
  std::string identity;   // job UID and generation: a rank of another one is refused
  std::string interface;  // GLOO_SOCKET_IFNAME; empty: the one on the way to the master
  Backend backend = Backend::kAuto;
  // Of sums. kRing is Gloo's alone, kNccl wants Backend::kNccl.
  core::Reduce algorithm = core::Reduce::kTree;
  MakeSliceSum slice_sum;  // for kTree on NCCL: its kernel
  // Why this rank cannot use its GPU, whatever NCCL would say. Then no rank does, and all know why.
  std::optional<Error> without_gpu;
  Duration connect_timeout = seconds(120);
  // Asked now and then while the ranks are waited for: true ends that, with kUnavailable.
  std::function<bool()> given_up;
  Duration operation_timeout = seconds(120);
  // Where the flight recorder's last entries go when an operation is late or a peer is lost, as
  // rank-NNNNN.json; empty: nowhere.
  std::string evidence_dir;
  // Told once, from a thread of the Communicator's, before all else that a failure or an abort
  // leads to: where this rank stands then, `allreduce 17 "bucket 3" of 4096 bytes`. It does not
  // block.
  std::function<void(const std::string& standing)> on_end;
  // Told once, from the same thread, when it fails: at most a second after a peer's
  // death, even while no operation is under way. The error names the rank that is to blame, if that
  // is known. The trainer exits with 75 here.
  std::function<void(const Error&)> on_failure;
};

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_WORKER_TRAINER_COLLECTIVES_OPTIONS_H_
