// Placement: where a run computes, on a GPU or on the CPUs, and by what its ranks talk.
//
//   Result<Placement> place = Placement::Choose(job, shape, micro_batch, connection, nullptr);
//   place->Tell(connection);
//   all = Connect(connection);
//   place->Settle(*all);
//   place->gpu();  // to compute on; none: the CPUs
#ifndef LOCKSTEP_WORKER_TRAINER_RUN_PLACEMENT_H_
#define LOCKSTEP_WORKER_TRAINER_RUN_PLACEMENT_H_

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "core/model/trainer.h"
#include "worker/trainer/collectives/group/connect.h"
#include "worker/trainer/collectives/nccl/host_view.h"
#include "worker/trainer/cuda/engine/cuda_engine.h"
#include "worker/trainer/model/shape.h"

namespace lockstep::trainer {

class Placement {
 public:
  // Looks at this machine alone. With device Auto a GPU is taken where all that training on it
  // takes is there, and the model is one that its kernels are made for. kNotFound, kInvalid: what
  // the job asks for is not to be had, and what to do. What a rank of several lacks is no error
  // yet: Connect says it on all of them. `open`: this process's GPU, if it has one open.
  static Result<Placement> Choose(const core::Trainer& job, const Shape& shape, int micro_batch,
                                  const collectives::Options& connection, const Gpu* open);

  // For Connect, while this lives: the backend, the same on all ranks, what this one lacks, and
  // what adds up on its GPU.
  void Tell(collectives::Options& connection) const;

  // When the ranks have met, which decides for all of them.
  Status Settle(collectives::Communicator& all);

  std::optional<Gpu>& gpu() { return gpu_; }
  // Why there is none though the job leaves the device to this machine; empty: it does not.
  const std::string& why_not() const { return why_not_; }
  // For values in host memory; null: `all` itself serves.
  collectives::Communicator* host_view() { return host_view_.get(); }

 private:
  collectives::Backend backend_ = collectives::Backend::kGloo;
  std::optional<Gpu> gpu_;
  std::optional<Error> without_gpu_;  // what Gpu::Open said
  std::string why_not_;
  std::unique_ptr<collectives::HostView> host_view_;
};

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_RUN_PLACEMENT_H_
