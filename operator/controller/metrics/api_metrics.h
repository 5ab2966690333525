// ApiMetrics: how the API server answers this operator, as its metrics show it. Any thread.
#ifndef LOCKSTEP_OPERATOR_CONTROLLER_METRICS_API_METRICS_H_
#define LOCKSTEP_OPERATOR_CONTROLLER_METRICS_API_METRICS_H_

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <string>

#include "operator/kube/client.h"

namespace lockstep::control {

class ApiMetrics {
 public:
  explicit ApiMetrics(prometheus::Registry* registry);

  void OnAttempt(const kube::CallRecord& call);
  // A watch of this resource is begun; what is returned counts its restarts.
  prometheus::Counter* RestartsOf(const std::string& resource) {
    return &watch_restarts_->Add({{"resource", resource}});
  }
  // Counts the objects of this resource that could not be read.
  prometheus::Counter* UnreadableOf(const std::string& resource) {
    return &unreadable_->Add({{"resource", resource}});
  }

 private:
  prometheus::Family<prometheus::Counter>* calls_;
  prometheus::Family<prometheus::Histogram>* seconds_;
  prometheus::Family<prometheus::Counter>* watch_restarts_;
  prometheus::Family<prometheus::Counter>* unreadable_;
};

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_CONTROLLER_METRICS_API_METRICS_H_
