// Histograms of the operator's metrics. A class registers its own counts at the registry that GET
// /metrics collects (docs/reference/metrics.md). No metric has a job's name.
#ifndef LOCKSTEP_OPERATOR_CONTROLLER_METRICS_HISTOGRAMS_H_
#define LOCKSTEP_OPERATOR_CONTROLLER_METRICS_HISTOGRAMS_H_

#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <string>

namespace lockstep::control {

using Buckets = prometheus::Histogram::BucketBoundaries;  // in seconds

// For what is over at once, and for what takes a while.
inline const Buckets& ShortTimes() {
  static const Buckets buckets = {0.0001, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5};
  return buckets;
}
inline const Buckets& LongTimes() {
  static const Buckets buckets = {0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800};
  return buckets;
}

inline prometheus::Histogram* AddHistogram(prometheus::Registry* registry, const std::string& name,
                                           const std::string& help, const Buckets& buckets) {
  return &prometheus::BuildHistogram().Name(name).Help(help).Register(*registry).Add({}, buckets);
}

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_CONTROLLER_METRICS_HISTOGRAMS_H_
