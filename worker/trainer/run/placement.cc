#include "worker/trainer/run/placement.h"

#include <utility>

#include "worker/trainer/cuda/cuda_gpt.h"
#include "worker/trainer/cuda/slice_sum.h"

namespace lockstep::trainer {

namespace {

using collectives::Backend;
using core::Device;

// What the job and its model say of a GPU, whatever the machine has.
Status MayBeOnGpu(const core::Trainer& job, const Shape& shape, int micro_batch) {
  if (job.sync == core::Sync::kParameterServer) {
    return Error::Invalid(
        "a parameter server computes on CPUs: write sync AllReduce, or device Cpu");
  }
  if (job.backend == Backend::kGloo) {
    return Error::Invalid("Gloo works in host memory: write backend Nccl, or device Cpu");
  }
  if (job.reduce == core::Reduce::kRing) {
    return Error::Invalid("Ring needs Gloo: write reduce Tree or Nccl, or device Cpu");
  }
  return CudaGpt::Check(shape, micro_batch);
}

}  // namespace

Result<Placement> Placement::Choose(const core::Trainer& job, const Shape& shape, int micro_batch,
                                    const collectives::Options& connection, const Gpu* open) {
  Placement place;
  const bool nccl = job.backend == Backend::kNccl || job.reduce == core::Reduce::kNccl;
  if (job.device == Device::kCpu) {
    if (!nccl) return place;
    return Error::Invalid(
        "NCCL works in the memory of GPUs: write backend Gloo and reduce Tree, or device Cuda");
  }
  const bool must = job.device == Device::kCuda || nccl;
  if (Status may = MayBeOnGpu(job, shape, micro_batch); !may.ok()) {
    if (must) return may.error();
    if (job.backend != Backend::kGloo) place.why_not_ = may.error().message;
    return place;
  }
  Result<Gpu> gpu = open == nullptr ? Gpu::Open(connection.local_rank) : open->Again();
  if (gpu.ok()) {
    place.gpu_.emplace(std::move(*gpu));
  } else {
    // A GPU that is broken, or a driver that fails, is no reason to be slow in silence.
    const bool missing = gpu.error().kind == ErrorKind::kNotFound;
    if (connection.world == 1 && (must || !missing)) return gpu.error();
    place.without_gpu_ = gpu.error();
    if (missing) {
      place.why_not_ =
          collectives::CudaDriver::IsInstalled() ? gpu.error().message : "no NVIDIA driver is here";
    }
  }
  // Alone, nothing has to be moved.
  if (connection.world > 1 || nccl) place.backend_ = must ? Backend::kNccl : Backend::kAuto;
  return place;
}

void Placement::Tell(collectives::Options& connection) const {
  connection.backend = backend_;
  connection.without_gpu = without_gpu_;
  if (gpu_) connection.slice_sum = MakeSliceSumOf(gpu_->kernels);
}

Status Placement::Settle(collectives::Communicator& all) {
  if (all.memory() != collectives::Memory::kDevice) {
    if (all.world() > 1 && gpu_) {  // another rank has none
      why_not_ = all.Describe();
      gpu_.reset();
    }
    return {};
  }
  Result<std::unique_ptr<collectives::HostView>> view =
      collectives::HostView::Create(gpu_->device, all);
  if (!view.ok()) return view.error();
  host_view_ = std::move(*view);
  return {};
}

}  // namespace lockstep::trainer
