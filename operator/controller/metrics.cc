#include "operator/controller/metrics.h"

#include <prometheus/text_serializer.h>

#include "base/enum_names.h"

namespace lockstep::control {
namespace {

using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::BuildHistogram;
using Buckets = prometheus::Histogram::BucketBoundaries;

const Buckets& Short() {
  static const Buckets buckets = {0.0001, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5};
  return buckets;
}
const Buckets& Long() {
  static const Buckets buckets = {0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800};
  return buckets;
}

prometheus::Histogram* Histogram(prometheus::Registry& registry, const char* name, const char* help,
                                 const Buckets& buckets) {
  return &BuildHistogram().Name(name).Help(help).Register(registry).Add({}, buckets);
}

std::string CodeOf(const kube::CallRecord& call) {
  if (call.http != 0) return std::to_string(call.http);
  return call.ok ? "200" : kube::ToString(call.kind);
}

}  // namespace

Metrics::Metrics(const std::string& version) {
  queue_wait_ = Histogram(registry_, "lockstep_operator_queue_wait_seconds",
                          "From a job's turn to its decision", Short());
  decide_ = Histogram(registry_, "lockstep_operator_reconcile_seconds",
                      "From taking a job's snapshot to having its decision", Short());
  to_pods_ = Histogram(registry_, "lockstep_operator_creation_to_pods_seconds",
                       "From a job's creation to its last pod's", Long());
  to_running_ = Histogram(registry_, "lockstep_operator_creation_to_running_seconds",
                          "From a job's creation to all ranks running", Long());
  leader_ = &BuildGauge()
                 .Name("lockstep_operator_leader")
                 .Help("1 while this operator holds the Lease")
                 .Register(registry_)
                 .Add({});
  api_calls_ = &BuildCounter()
                    .Name("lockstep_operator_api_calls_total")
                    .Help("Requests to the API server, by verb and code")
                    .Register(registry_);
  api_seconds_ = &BuildHistogram()
                      .Name("lockstep_operator_api_call_seconds")
                      .Help("How long the API server took to answer, by verb")
                      .Register(registry_);
  watch_restarts_ = &BuildCounter()
                         .Name("lockstep_operator_watch_restarts_total")
                         .Help("Times a watch was begun again, by resource")
                         .Register(registry_);
  restarts_ = &BuildCounter()
                   .Name("lockstep_operator_restarts_total")
                   .Help("Restarts of gangs and replacements of machines, by class of cause")
                   .Register(registry_);
  for (core::CauseClass cause : {core::CauseClass::kApplication, core::CauseClass::kInfrastructure,
                                 core::CauseClass::kStopped}) {
    restarts_->Add({{"cause", core::ToString(cause)}});
  }
  auto& jobs =
      BuildGauge().Name("lockstep_operator_jobs").Help("TrainingJobs by state").Register(registry_);
  for (const auto& state : core::kEnumNames<core::JobState>) {
    jobs_[state.value] = &jobs.Add({{"state", state.name}});
  }
  BuildGauge()
      .Name("lockstep_operator_build_info")
      .Help("1, with the version of this program")
      .Register(registry_)
      .Add({{"version", version}})
      .Set(1);
}

void Metrics::OnDecided(Duration queue_wait, Duration decide) {
  queue_wait_->Observe(Seconds(queue_wait));
  decide_->Observe(Seconds(decide));
}

void Metrics::OnApiCall(const kube::CallRecord& call) {
  const char* verb = kube::ToString(call.method);
  api_calls_->Add({{"verb", verb}, {"code", CodeOf(call)}}).Increment();
  api_seconds_->Add({{"verb", verb}}, Short()).Observe(Seconds(call.duration));
}

void Metrics::OnWatch(const std::string& resource) {
  watch_restarts_->Add({{"resource", resource}});
}

void Metrics::OnWatchRestart(const std::string& resource) {
  watch_restarts_->Add({{"resource", resource}}).Increment();
}

void Metrics::OnPodsMade(Duration since_creation) { to_pods_->Observe(Seconds(since_creation)); }
void Metrics::OnRunning(Duration since_creation) { to_running_->Observe(Seconds(since_creation)); }

void Metrics::OnRestart(core::CauseClass cause_class) {
  restarts_->Add({{"cause", core::ToString(cause_class)}}).Increment();
}

void Metrics::SetJobs(const std::map<core::JobState, int>& by_state) {
  for (const auto& [state, gauge] : jobs_) {
    const auto found = by_state.find(state);
    gauge->Set(found == by_state.end() ? 0 : found->second);
  }
}

void Metrics::SetLeader(bool leads) { leader_->Set(leads ? 1 : 0); }

std::string Metrics::Scrape() const {
  return prometheus::TextSerializer().Serialize(registry_.Collect());
}

}  // namespace lockstep::control
