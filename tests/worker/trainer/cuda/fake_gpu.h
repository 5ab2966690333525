// The fakes beside the driver and NCCL that tests of the trainer on a GPU need.
#ifndef LOCKSTEP_TESTS_WORKER_TRAINER_CUDA_FAKE_GPU_H_
#define LOCKSTEP_TESTS_WORKER_TRAINER_CUDA_FAKE_GPU_H_

#include "tests/worker/trainer/collectives/nccl/rank_processes.h"

namespace lockstep::trainer {

// In this rank's process.
inline void UseFakeBlas() {
  collectives::Rank::Set("LOCKSTEP_CUBLASLT_LIBRARY", LOCKSTEP_FAKES "/libcublasLt.so.13");
}

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_TESTS_WORKER_TRAINER_CUDA_FAKE_GPU_H_
