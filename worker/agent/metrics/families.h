// Families: how a part of the agent tells what GET /metrics shows of it. Each part is a
// prometheus::Collectable, and says name, help and value of a metric in one place. A test compares
// them with the list in docs/reference/metrics.md.
//
//   std::vector<prometheus::MetricFamily> Console::Collect() const {
//     return Families().Counter("lockstep_dropped_lines_total", "Lines left out.", lines_).Take();
//   }
//
// Labels are trainingjob and machine, which every sample has and no part gives, rank, and a few
// with a fixed set of values; a label named job, instance, namespace, pod, container or node would
// be renamed by the scraper and is never used. What is not known is left out. Counters never fall
// within the life of an agent. One thread.
#ifndef LOCKSTEP_WORKER_AGENT_METRICS_FAMILIES_H_
#define LOCKSTEP_WORKER_AGENT_METRICS_FAMILIES_H_

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::agent {

using Label = prometheus::ClientMetric::Label;
using Labels = std::vector<Label>;

class Families {
 public:
  // One sample each. Samples of one name have one help, and may come between those of others.
  Families& Gauge(const char* name, const char* help, std::optional<double> value,
                  Labels labels = {});
  Families& Counter(const char* name, const char* help, std::optional<double> value,
                    Labels labels = {});
  // A histogram, or a summary of no quantiles.
  Families& Histogram(const char* name, const char* help, prometheus::ClientMetric value,
                      Labels labels = {});
  Families& Summary(const char* name, const char* help, prometheus::ClientMetric value,
                    Labels labels = {});

  std::vector<prometheus::MetricFamily> Take() { return std::move(families_); }

 private:
  Families& Add(prometheus::MetricType type, const char* name, const char* help,
                prometheus::ClientMetric sample, Labels labels);

  std::vector<prometheus::MetricFamily> families_;
};

// What the parts show, with the labels that all samples have, in Prometheus' text format. No two
// parts show one family.
std::string Expose(const std::vector<const prometheus::Collectable*>& parts, const Labels& common);

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_METRICS_FAMILIES_H_
