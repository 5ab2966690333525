#include "worker/agent/metrics/families.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace lockstep::agent {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

Families& Families::Gauge(const char* name, const char* help, std::optional<double> value,
                          Labels labels) {
  if (!value) return *this;
  ClientMetric sample;
  sample.gauge.value = *value;
  return Add(MetricType::Gauge, name, help, std::move(sample), std::move(labels));
}

Families& Families::Counter(const char* name, const char* help, std::optional<double> value,
                            Labels labels) {
  if (!value) return *this;
  ClientMetric sample;
  sample.counter.value = *value;
  return Add(MetricType::Counter, name, help, std::move(sample), std::move(labels));
}

Families& Families::Histogram(const char* name, const char* help, ClientMetric value,
                              Labels labels) {
  return Add(MetricType::Histogram, name, help, std::move(value), std::move(labels));
}

Families& Families::Summary(const char* name, const char* help, ClientMetric value, Labels labels) {
  return Add(MetricType::Summary, name, help, std::move(value), std::move(labels));
}

Families& Families::Add(MetricType type, const char* name, const char* help, ClientMetric sample,
                        Labels labels) {
  auto family = std::find_if(families_.begin(), families_.end(),
                             [&](const MetricFamily& each) { return each.name == name; });
  if (family == families_.end()) {
    family = families_.insert(family, MetricFamily{name, help, type, {}});
  }
  sample.label = std::move(labels);
  family->metric.push_back(std::move(sample));
  return *this;
}

std::string Expose(const std::vector<const prometheus::Collectable*>& parts, const Labels& common) {
  std::vector<MetricFamily> page;
  for (const prometheus::Collectable* part : parts)
    std::ranges::move(part->Collect(), std::back_inserter(page));
  for (MetricFamily& family : page) {
    for (ClientMetric& sample : family.metric) {
      sample.label.insert(sample.label.begin(), common.begin(), common.end());
    }
  }
  return prometheus::TextSerializer().Serialize(page);
}

}  // namespace lockstep::agent
