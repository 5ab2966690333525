// Every operation of a Communicator on device memory, with values that only the right one gives.
#ifndef LOCKSTEP_TESTS_GPU_VALUES_H_
#define LOCKSTEP_TESTS_GPU_VALUES_H_

#include <cstddef>

#include "base/result.h"
#include "worker/trainer/collectives/collectives.h"

namespace lockstep::gpu {

struct ValuesReport {
  size_t operations = 0;
  size_t wrong = 0;  // values, on this rank
};

// On GPU `local_rank`, with `count` elements an operation.
Result<ValuesReport> CheckValues(collectives::Communicator& all, int local_rank, size_t count);

}  // namespace lockstep::gpu

#endif  // LOCKSTEP_TESTS_GPU_VALUES_H_
