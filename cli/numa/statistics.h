// What repeated runs say together. Pure.
#ifndef LOCKSTEP_CLI_NUMA_STATISTICS_H_
#define LOCKSTEP_CLI_NUMA_STATISTICS_H_

#include <cstdint>
#include <vector>

namespace lockstep::numa {

// Of a series of figures. The interval holds the median of many such series in 95 of 100 cases; it
// is found by the bootstrap (Efron 1979): medians of 2,000 series drawn from the figures
// themselves.
struct Summary {
  int count = 0;
  double median = 0;
  double low = 0, high = 0;  // the interval's ends
  double p5 = 0, p95 = 0;
  double least = 0, most = 0;
  double deviation = 0;  // standard, of the figures; 0 for fewer than two
};

// All zero for no figures. The same seed gives the same interval.
Summary Summarize(std::vector<double> figures, uint64_t seed);

}  // namespace lockstep::numa

#endif  // LOCKSTEP_CLI_NUMA_STATISTICS_H_
