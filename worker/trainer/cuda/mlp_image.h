// mlp_kernels.cu as nvcc compiled it, part of this program.
#ifndef LOCKSTEP_WORKER_TRAINER_CUDA_MLP_IMAGE_H_
#define LOCKSTEP_WORKER_TRAINER_CUDA_MLP_IMAGE_H_

#include <string_view>

namespace lockstep::trainer {

// A fat binary for cuModuleLoadData; empty in a program that was built without CUDA
// (LOCKSTEP_CUDA=OFF, or AUTO where there was no nvcc).
std::string_view MlpImage();

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_CUDA_MLP_IMAGE_H_
