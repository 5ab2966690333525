// Which of a machine's GPUs its processes see, and by which names: CUDA_VISIBLE_DEVICES and its
// AMD siblings as CUDA and ROCm read them, the other way round. Pure.
#ifndef LOCKSTEP_WORKER_TOPOLOGY_PLAN_GPU_CHOICE_H_
#define LOCKSTEP_WORKER_TOPOLOGY_PLAN_GPU_CHOICE_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/plan/environment.h"
#include "worker/topology/gpus.h"

namespace lockstep::topology {

inline constexpr std::string_view kCudaVisible = "CUDA_VISIBLE_DEVICES";
inline constexpr std::string_view kRocrVisible = "ROCR_VISIBLE_DEVICES";
inline constexpr std::string_view kHipVisible = "HIP_VISIBLE_DEVICES";

// A GPU, or a MIG slice of one, as the processes number them.
struct VisibleGpu {
  int gpu = -1;      // index into the machine's; -1: its name doesn't tell which
  std::string name;  // in the variable: "4", "GPU-8a3e...", "MIG-..."
};

struct GpuChoice {
  GpuVendor vendor = GpuVendor::kNvidia;  // of all of them: NVIDIA's where the machine has any
  std::vector<VisibleGpu> visible;
  std::string problem;  // a name that is none here, behind which CUDA sees nothing; or empty
};

GpuChoice ChooseGpus(const std::vector<Gpu>& gpus, const core::Variables& variables);

// The variables that show a process `visible`, some of `choice`, and nothing else.
core::Variables VariablesThatShow(const GpuChoice& choice, std::span<const VisibleGpu> visible,
                                  const core::Variables& variables);

}  // namespace lockstep::topology

#endif  // LOCKSTEP_WORKER_TOPOLOGY_PLAN_GPU_CHOICE_H_
