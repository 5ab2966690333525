// The allreduce bench's buffers on a GPU: for a Communicator whose memory() is the device's.
#ifndef LOCKSTEP_WORKER_TRAINER_COLLECTIVES_GROUP_CUDA_BENCH_H_
#define LOCKSTEP_WORKER_TRAINER_COLLECTIVES_GROUP_CUDA_BENCH_H_

#include <memory>

#include "base/result.h"
#include "worker/trainer/collectives/group/bench.h"

namespace lockstep::collectives {

// On GPU `local_rank`, the Communicator's own.
Result<std::unique_ptr<BenchMemory>> MakeDeviceMemory(int local_rank);

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_WORKER_TRAINER_COLLECTIVES_GROUP_CUDA_BENCH_H_
