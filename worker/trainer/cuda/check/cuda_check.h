// Whether this installation computes and reduces rightly on its GPUs: the test model, trained
// data-parallel for a few steps, against the same in double precision on the host.
//
//   Result<CudaCheckReport> report = RunCudaCheck(*communicator, {.local_rank = local_rank});
//   std::puts(ToJson(*report).c_str());
#ifndef LOCKSTEP_WORKER_TRAINER_CUDA_CHECK_CUDA_CHECK_H_
#define LOCKSTEP_WORKER_TRAINER_CUDA_CHECK_CUDA_CHECK_H_

#include <string>

#include "base/result.h"
#include "worker/trainer/collectives/collectives.h"

namespace lockstep::trainer {

struct CudaCheckOptions {
  int local_rank = 0;  // which GPU: the communicator's own
  int steps = 60;
  // Rows of the global batch. A multiple of the world: each rank takes an equal part of it, in rank
  // order.
  unsigned global_rows = 64;
};

struct CudaCheckReport {
  std::string backend;  // Communicator::Describe()
  int world = 1;
  int steps = 0;
  double first_loss = 0;
  double last_loss = 0;
  // Largest difference from the host's, relative to the largest number there: of the first step's
  // gradient, and of the parameters after the last.
  double gradient_error = 0;
  double parameter_error = 0;
};

// kInvalid for a communicator of host memory; kInternal, with the figures, when the numbers are
// wrong or ranks differ.
Result<CudaCheckReport> RunCudaCheck(collectives::Communicator& all,
                                     const CudaCheckOptions& options);

// One line.
std::string ToJson(const CudaCheckReport& report);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_CUDA_CHECK_CUDA_CHECK_H_
