// The test model again, in double precision on the host: what the GPU's numbers are compared with.
#ifndef LOCKSTEP_WORKER_TRAINER_CUDA_CHECK_MLP_REFERENCE_H_
#define LOCKSTEP_WORKER_TRAINER_CUDA_CHECK_MLP_REFERENCE_H_

#include <vector>

#include "worker/trainer/cuda/check/mlp_shape.h"

namespace lockstep::trainer {

// The mean over rows and outputs of (y - target)^2, and its gradient in the parameters' order.
double MlpLossAndGradient(const MlpShape& shape, const std::vector<double>& parameters,
                          const MlpBatch& batch, std::vector<double>* gradient);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_CUDA_CHECK_MLP_REFERENCE_H_
