#include "operator/controller/metrics/api_metrics.h"

#include "operator/controller/metrics/histograms.h"

namespace lockstep::control {

using prometheus::BuildCounter;

ApiMetrics::ApiMetrics(prometheus::Registry* registry)
    : calls_(
          &BuildCounter()
               .Name("lockstep_operator_api_calls_total")
               .Help("Requests to the API server; without an answer the code is the kind of error")
               .Register(*registry)),
      seconds_(&prometheus::BuildHistogram()
                    .Name("lockstep_operator_api_call_seconds")
                    .Help("How long the API server took to answer")
                    .Register(*registry)),
      watch_restarts_(&BuildCounter()
                           .Name("lockstep_operator_watch_restarts_total")
                           .Help("Times a watch was opened again")
                           .Register(*registry)),
      unreadable_(&BuildCounter()
                       .Name("lockstep_operator_unreadable_objects_total")
                       .Help("Times an object could not be read and was skipped; the log names it")
                       .Register(*registry)) {}

void ApiMetrics::OnAttempt(const kube::CallRecord& call) {
  const char* verb = kube::ToString(call.method);
  const std::string code = call.http != 0 ? std::to_string(call.http)
                           : call.ok      ? "200"
                                          : kube::ToString(call.kind);
  calls_->Add({{"verb", verb}, {"code", code}}).Increment();
  seconds_->Add({{"verb", verb}}, ShortTimes()).Observe(Seconds(call.duration));
}

}  // namespace lockstep::control
