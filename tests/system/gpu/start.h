// What it takes to begin on a GPU, part by part: the driver, the kernels from each image that this
// build has, and cuBLASLt.
#ifndef LOCKSTEP_TESTS_GPU_START_H_
#define LOCKSTEP_TESTS_GPU_START_H_

#include <string>
#include <vector>

#include "base/result.h"

namespace lockstep::gpu {

struct StartReport {
  std::string device;
  int capability = 0;  // 90 for 9.0
  int driver = 0;      // 13000 serves CUDA 13.0
  std::string blas;    // "13.1.1"
  struct Part {
    std::string what;  // "kernels from PTX for sm_90"
    double seconds = 0;
    std::string error;  // empty: it is there
  };
  std::vector<Part> parts;
};

// Fails where there is no GPU. An image that this GPU does not take is a part with its error.
Result<StartReport> CheckStart(int local_rank);

}  // namespace lockstep::gpu

#endif  // LOCKSTEP_TESTS_GPU_START_H_
