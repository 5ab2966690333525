#include "worker/trainer/run/options.h"

#include <sched.h>

#include <cstdlib>

namespace lockstep::trainer {

int ThreadCount(int asked) {
  if (asked > 0) return asked;
  if (const char* openmp = std::getenv("OMP_NUM_THREADS")) {
    const int count = std::atoi(openmp);
    if (count > 0) return count;
  }
  cpu_set_t allowed;
  return sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
}

}  // namespace lockstep::trainer
