// The GPU's kernels (device.cu), part of this program.
#ifndef LOCKSTEP_WORKER_TRAINER_CUDA_DEVICE_IMAGE_H_
#define LOCKSTEP_WORKER_TRAINER_CUDA_DEVICE_IMAGE_H_

#include <span>
#include <string_view>

namespace lockstep::trainer {

// For cuModuleLoadData.
struct DeviceImage {
  std::string_view what;  // "PTX for sm_80"
  int oldest = 0;         // the compute capability that it wants: 80 for 8.0
  std::string_view data;  // a 0 follows
};

// In the order in which to try them: machine code for some GPUs, where the build had what makes it;
// then PTX, which the driver compiles for any GPU that is new enough.
std::span<const DeviceImage> DeviceImages();

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_CUDA_DEVICE_IMAGE_H_
