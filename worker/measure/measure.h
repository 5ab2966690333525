// What one machine can do, each part measured for about half a second however slow it is: for
// preflight, of agents and of the trainer.
#ifndef LOCKSTEP_WORKER_MEASURE_MEASURE_H_
#define LOCKSTEP_WORKER_MEASURE_MEASURE_H_

#include <cstddef>
#include <functional>
#include <string>

#include "base/result.h"
#include "base/time.h"

namespace lockstep {

inline constexpr Duration kMeasureTime = milliseconds(500);

double InSeconds(Duration duration);

// `work`, which does so much, again and again for kMeasureTime on each of so many threads: how much
// was done a second, in all. The mean, for a core that is held back runs at full speed between.
// Each thread makes its own.
double RateOf(int threads, double amount, const std::function<std::function<void()>()>& make_work);

// GB/s of STREAM's triad, counted as STREAM counts, over arrays of so many doubles a thread.
double MemoryRate(int threads, size_t elements);

// GB/s of a file of up to 64 MiB in `folder`, synced every 4 MiB; it is gone afterwards. `name`:
// who else measures there must have another.
Result<double> DiskRate(const std::string& folder, const std::string& name);

}  // namespace lockstep

#endif  // LOCKSTEP_WORKER_MEASURE_MEASURE_H_
