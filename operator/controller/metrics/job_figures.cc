#include "operator/controller/metrics/job_figures.h"

#include <utility>

#include "base/text/enum_names.h"
#include "core/failure/failure.h"
#include "operator/controller/metrics/histograms.h"

namespace lockstep::control {

using core::CauseClass;

JobFigures::JobFigures(prometheus::Registry* registry)
    : to_pods_(AddHistogram(registry, "lockstep_operator_creation_to_pods_seconds",
                            "Time from a job's creation to the creation of its last pod",
                            LongTimes())),
      to_running_(AddHistogram(registry, "lockstep_operator_creation_to_running_seconds",
                               "Time from a job's creation until all ranks run", LongTimes())),
      restarts_(&prometheus::BuildCounter()
                     .Name("lockstep_operator_restarts_total")
                     .Help("Restarts of gangs, and of ranks alone, by class of cause: application, "
                           "infrastructure, stopped")
                     .Register(*registry)),
      lost_(&prometheus::BuildCounter()
                 .Name("lockstep_operator_lost_machine_seconds_total")
                 .Help("Unproductive time of jobs' machines, by the cause that lost it; counted "
                       "when its generation has ended")
                 .Register(*registry)),
      evidence_(&prometheus::BuildCounter()
                     .Name("lockstep_operator_node_evidence_total")
                     .Help("What gangs saw of a node: Lost, Failed, Straggler or Slow")
                     .Register(*registry)),
      spares_(&prometheus::BuildGauge()
                   .Name("lockstep_operator_spares")
                   .Help("Spare machines that are ready, of all TrainingJobs")
                   .Register(*registry)
                   .Add({})) {
  for (CauseClass each :
       {CauseClass::kApplication, CauseClass::kInfrastructure, CauseClass::kStopped}) {
    restarts_->Add({{"cause", core::ToString(each)}});
  }
  for (const auto& activity : core::kEnumNames<core::Activity>) {
    if (core::IsLoss(activity.value)) lost_->Add({{"to", activity.name}});
  }
  auto& jobs = prometheus::BuildGauge()
                   .Name("lockstep_operator_jobs")
                   .Help("TrainingJobs by state")
                   .Register(*registry);
  for (const auto& state : core::kEnumNames<core::JobState>) {
    jobs_[state.value] = &jobs.Add({{"state", state.name}});
  }
}

void JobFigures::SetState(std::optional<core::JobState> state, JobRecord* record) {
  if (record->counted == state) return;
  if (record->counted) jobs_.at(*record->counted)->Decrement();
  if (state) jobs_.at(*state)->Increment();
  record->counted = state;
}

// Time whose activity may still change is not counted yet.
void JobFigures::CountLosses(const core::JobStatus& before, const core::JobStatus& after) {
  const auto settled = [](const core::JobStatus& status, core::Activity activity) {
    if (!status.ledger) return int64_t{0};
    return status.ledger->sums.of(activity) -
           (status.ledger->open ? status.ledger->open->sums.of(activity) : 0);
  };
  for (const auto& [activity, name] : core::kEnumNames<core::Activity>) {
    const int64_t grown = settled(after, activity) - settled(before, activity);
    if (!core::IsLoss(activity) || grown <= 0) continue;
    lost_->Add({{"to", name}}).Increment(Seconds(milliseconds(grown)));
  }
}

void JobFigures::SetSpares(int32_t ready, JobRecord* record) {
  spares_->Increment(ready - record->counted_spares);
  record->counted_spares = ready;
}

void JobFigures::OnWritten(const core::JobStatus& before, const core::JobStatus& after,
                           Duration age) {
  if (before.created_epoch == 0 && after.created_epoch != 0) to_pods_->Observe(Seconds(age));
  if (!before.timings.started && after.timings.started) to_running_->Observe(Seconds(age));
  const auto count = [this](int32_t from, int32_t to, CauseClass cause) {
    if (from < to) restarts_->Add({{"cause", core::ToString(cause)}}).Increment(to - from);
  };
  count(before.restarts.application, after.restarts.application, CauseClass::kApplication);
  count(before.restarts.infrastructure, after.restarts.infrastructure, CauseClass::kInfrastructure);
  count(before.restarts.stopped, after.restarts.stopped, CauseClass::kStopped);
  CountLosses(before, after);
  for (const core::SuspectNode& each : NewEvidence(before, after)) {
    evidence_->Add({{"node", each.node}, {"evidence", each.evidence}}).Increment(each.count);
  }
}

std::vector<core::SuspectNode> NewEvidence(const core::JobStatus& before,
                                           const core::JobStatus& after) {
  std::vector<core::SuspectNode> grown;
  for (core::SuspectNode each : after.suspect_nodes) {
    for (const core::SuspectNode& known : before.suspect_nodes) {
      if (known.node == each.node && known.evidence == each.evidence) each.count -= known.count;
    }
    if (each.count > 0) grown.push_back(std::move(each));
  }
  return grown;
}

}  // namespace lockstep::control
