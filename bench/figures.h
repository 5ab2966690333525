// How a benchmark says what it found: one line of JSON a figure, with the machine it came from and
// the limit or the peer it stands against. Nothing here passes or fails by time.
#ifndef LOCKSTEP_TESTS_BENCH_FIGURES_H_
#define LOCKSTEP_TESTS_BENCH_FIGURES_H_

#include <nlohmann/json.hpp>
#include <vector>

#include "base/time.h"

namespace lockstep::bench {

using Json = nlohmann::ordered_json;

// Prints `line` with the machine's description behind it.
void Print(Json line);

double Milliseconds(Duration duration);
// To three digits behind the point: what is finer is noise.
double Round(double value);

// The smallest sample that at least `share` of all samples do not exceed; 0 without samples.
double Quantile(std::vector<double> samples, double share);
// {"p50": ..., "p99": ..., "max": ..., "samples": n}
Json Spread(const std::vector<double>& samples);

}  // namespace lockstep::bench

#endif  // LOCKSTEP_TESTS_BENCH_FIGURES_H_
