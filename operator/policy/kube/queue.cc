#include "operator/policy/facts/queue.h"

#include <algorithm>
#include <utility>

#include "operator/policy/facts/gang_state.h"
#include "operator/policy/facts/rules.h"
#include "operator/policy/kube/kube_policies.h"
#include "operator/policy/status/refusal.h"

namespace lockstep::control {
namespace {

using core::Condition;

// Spares take as much as machines.
int64_t PodsOf(const core::Spec& spec) { return int64_t{spec.num_machines} + spec.spare_machines; }

// The quota to hold now.
int64_t PodsToHold(ReconcileContext& context) {
  const auto spares = static_cast<int64_t>(context.snapshot.spares.size());
  return MachinesThatHoldQuota(context) + std::max<int64_t>(context.spec().spare_machines, spares);
}

// It stands for the job as it is now, but for its size.
bool IsOfUse(const QueueSeen& queue, const WorkloadSeen& workload) {
  return !workload.finished && workload.queue == queue.name;
}

bool Fits(const core::Spec& spec, const QueueSeen& queue, const WorkloadSeen& workload) {
  return IsOfUse(queue, workload) && workload.count == PodsOf(spec);
}

// A gang may be made.
bool IsAdmitted(const core::Spec& spec, const QueueSeen& queue) {
  const std::optional<WorkloadSeen>& workload = queue.workload;
  return workload && Fits(spec, queue, *workload) && !workload->deleting && workload->active &&
         workload->admitted && !workload->evicted;
}

// A gang may lose its admission while it runs. If its admission is unknown (its Workload was
// deleted and made anew, or Kueue is gone), the gang keeps running.
bool IsTakenBack(const QueueSeen& queue) {
  const std::optional<WorkloadSeen>& workload = queue.workload;
  return workload &&
         (workload->evicted || !workload->active || workload->finished || workload->waits);
}

std::string Words(const WorkloadSeen& workload) {
  if (!workload.active) {
    return "Workload " + workload.name + " is not active" +
           (workload.message.empty() ? "" : ": " + workload.message);
  }
  if (workload.message.empty()) return "Kueue has not yet processed Workload " + workload.name;
  return workload.message;
}

std::string Words(ReconcileContext& context, const QueueSeen& queue) {
  if (queue.queues == Queues::kAbsent) {
    return "Kueue is not installed, the operator lacks --kueue, or it may not read Kueue's objects "
           "(the operator's log shows why)";
  }
  if (queue.queues == Queues::kUnknown) return "Kueue's objects are being read";
  if (!queue.workload && !queue.prebuilt.empty()) {
    return "its Workload " + queue.prebuilt + ", which MultiKueue creates, does not exist";
  }
  if (!queue.workload) {
    const Refusal* refusal = context.refusal();
    return refusal == nullptr ? "its Workload is being created"
                              : WhyRefused(context, *refusal).text;
  }
  return Words(*queue.workload);
}

// Whether Kueue is to hear of it: only what differs from what it was told.
void TellOfPods(ReconcileContext& context, const WorkloadSeen& workload, bool ready) {
  if (!workload.admitted || ready == workload.pods_ready.value_or(false)) return;
  context.AddAction(
      TellWorkload{.name = workload.name,
                   .uid = workload.uid,
                   .type = "PodsReady",
                   .holds = ready,
                   .reason = !ready              ? "WaitForRecovery"
                             : workload.recovers ? "Recovered"
                                                 : "Started",
                   .message = ready ? "" : context.next.ready + " machines are ready"});
}

// The job's status shows that nothing runs on the other cluster. Or the other cluster was silent
// for the longest possible time; then Kueue, which has given that cluster up, may continue.
bool HasLeftElsewhere(ReconcileContext& context, const WorkloadSeen& workload) {
  const core::JobStatus& status = context.snapshot.status;
  const bool known = status.epoch > 0;
  if (!known || status.state == core::JobState::kQueued ||
      status.state == core::JobState::kSuspended || IsFinished(status)) {
    return true;
  }
  return context.IsDue(workload.evicted_at + StopPatience(context) +
                       context.spec().failure_policy.machine_lost_after);
}

// The job lets Kueue change its size.
bool IsSliced(const core::TrainingJob& job) {
  const auto found = job.metadata.annotations.find(kSliced);
  return job.spec.elastic && job.spec.managed_by == kManager &&
         found != job.metadata.annotations.end() && found->second == "true";
}

MakeWorkload WorkloadFor(const core::TrainingJob& job, int64_t pods) {
  const std::map<std::string, std::string>& labels = job.metadata.labels;
  const auto priority = labels.find(kPriorityLabel);
  MakeWorkload make;
  make.pods = pods;
  make.elastic = IsSliced(job);
  make.of_queues = priority != labels.end() && !priority->second.empty();
  make.priority_class = make.of_queues ? priority->second : job.spec.priority_class_name;
  return make;
}

DropWorkload Drop(const WorkloadSeen& workload) {
  return {workload.name, workload.uid, workload.version};
}

// For a gang that keeps running with its admission.
bool WantsGrowth(const ReconcileContext& context) {
  const Snapshot& snapshot = context.snapshot;
  const std::optional<QueueSeen>& queue = snapshot.queue;
  if (snapshot.status.attempts.empty() || !snapshot.status.elastic || context.spec().suspend ||
      IsFinished(snapshot.status) || snapshot.status.elastic->without_quota.empty()) {
    return false;
  }
  return queue && queue->queues == Queues::kThere && queue->workload && queue->prebuilt.empty() &&
         IsOfUse(*queue, *queue->workload) && queue->workload->admitted &&
         !queue->workload->deleting && !IsTakenBack(*queue);
}

WallTime GrowthDue(const ReconcileContext& context) {
  const core::Elastic elastic = context.spec().elastic.value_or(core::Elastic{});
  return context.snapshot.status.elastic->since.value_or(context.now.wall) + elastic.grow_after;
}

// Another Workload, which Kueue admits in place of the one that is there.
void KeepGrowth(ReconcileContext& context, const QueueSeen& queue, bool wanted) {
  const std::optional<WorkloadSeen>& growth = queue.growth;
  if (growth) {
    if (!wanted && !growth->deleting) context.AddAction(Drop(*growth));
    return;
  }
  if (!wanted) return;
  // Returned quota is subtracted first.
  const int64_t given_back = context.snapshot.status.elastic->without_quota.size();
  if (queue.workload->count > PodsOf(context.spec()) - given_back) return;
  if (!context.IsDue(GrowthDue(context)) || WaitsAfterRefusal(context)) return;
  MakeWorkload make = WorkloadFor(*context.snapshot.job, PodsOf(context.spec()));
  make.elastic = true;
  make.slice = context.snapshot.status.epoch;
  make.replaces = queue.workload->name;
  context.AddAction(std::move(make));
}

// Kueue finishes a Workload that a larger one replaces. If Kueue was killed in between, only this
// operator can. The last one stays as a record.
void ClearPast(ReconcileContext& context, const QueueSeen& queue) {
  for (const WorkloadSeen& past : queue.past) {
    if (past.deleting) continue;
    const bool last = queue.workload && &past == &queue.past.back();
    if (!past.finished && past.holds_quota) {
      context.AddAction(
          TellWorkload{.name = past.name,
                       .uid = past.uid,
                       .type = "Finished",
                       .holds = true,
                       .reason = "WorkloadSliceReplaced",
                       .message = "Workload " + queue.workload->name + " replaces it"});
    } else if (!past.replaced || !last) {
      context.AddAction(Drop(past));
    }
  }
}

}  // namespace

void Sort(std::vector<WorkloadSeen> workloads, QueueSeen* queue) {
  std::ranges::sort(workloads, {}, &WorkloadSeen::slice);
  const auto begin = workloads.begin();
  const auto end = workloads.end();
  const auto holds = [](const WorkloadSeen& each) { return !each.finished && each.holds_quota; };
  const auto lives = [](const WorkloadSeen& each) { return !each.finished; };
  const auto counts = [](const WorkloadSeen& each) { return !each.replaced; };
  auto own = end;
  for (auto each = begin; each != end; ++each) {
    if (holds(*each)) own = each;
  }
  if (own == end) own = std::find_if(begin, end, lives);
  if (own == end) own = std::find_if(begin, end, counts);
  const auto growth = own == end || own->finished ? end : std::find_if(own + 1, end, lives);
  for (auto each = begin; each != end; ++each) {
    if (each == own) {
      queue->workload = std::move(*each);
    } else if (each == growth) {
      queue->growth = std::move(*each);
    } else {
      queue->past.push_back(std::move(*each));
    }
  }
}

std::optional<Stop> StopForQueue(ReconcileContext& context) {
  const std::optional<QueueSeen>& queue = context.snapshot.queue;
  if (!queue) return std::nullopt;
  const bool made = !context.snapshot.status.attempts.empty();
  const bool may_begin = IsAdmitted(context.spec(), *queue) || !Holds(Rule::kAdmittedBeforeMade);
  if (made ? !IsTakenBack(*queue) : may_begin) return std::nullopt;
  return Stop{.reason = core::StopReason::kSuspended,
              .queues = true,
              .message = "queue " + queue->name + ": " + Words(context, *queue)};
}

bool MayMakePods(const Snapshot& snapshot) {
  const std::optional<QueueSeen>& queue = snapshot.queue;
  if (!queue || queue->name.empty() || queue->queues == Queues::kAbsent) return true;
  if (!Holds(Rule::kAdmittedBeforeMade)) return true;
  if (queue->queues != Queues::kThere || !queue->workload || !queue->workload->admitted) {
    return false;
  }
  const std::optional<core::ElasticStatus>& elastic = snapshot.status.elastic;
  return !elastic || queue->workload->count >=
                         int64_t{snapshot.job->spec.num_machines} - elastic->without_quota.size();
}

std::string WhyNoPods(ReconcileContext& context) {
  const QueueSeen& queue = *context.snapshot.queue;
  return "pods that are missing wait for queue " + queue.name + ": " + Words(context, queue);
}

void KeepWorkload(ReconcileContext& context, const std::optional<Stop>& stop) {
  const std::optional<QueueSeen>& queue = context.snapshot.queue;
  if (!queue || queue->queues != Queues::kThere) return;
  const bool left = context.snapshot.status.attempts.empty() && HasLeft(context);
  const bool suspended = context.spec().suspend;
  ClearPast(context, *queue);
  if (!queue->workload) {
    if (suspended || queue->name.empty() || !queue->prebuilt.empty()) return;
    if (WaitsAfterRefusal(context) || !queue->past.empty()) return;
    context.AddAction(WorkloadFor(*context.snapshot.job, PodsToHold(context)));
    return;
  }
  const WorkloadSeen& workload = *queue->workload;
  if (workload.deleting) return;
  if (!workload.owned) return context.AddAction(AdoptWorkload{workload.name, workload.version});
  const bool may_release = left || !Holds(Rule::kLeftBeforeReleased);
  const int64_t pods = PodsToHold(context);
  const bool resizes = workload.elastic && IsOfUse(*queue, workload);
  const bool may_grow = resizes && (!workload.holds_quota || workload.evicted);
  const bool of_use = !suspended && (Fits(context.spec(), *queue, workload) || may_grow);
  KeepGrowth(context, *queue, !stop && WantsGrowth(context));
  if (left && !of_use && queue->prebuilt.empty()) {
    context.AddAction(Drop(workload));
  } else if (may_release && workload.evicted && workload.holds_quota) {
    context.AddAction(ReleaseWorkload{workload.name, workload.version});
  } else if (resizes && (workload.count > pods || (workload.count < pods && may_grow))) {
    context.AddAction(ResizeWorkload{workload.name, workload.version, pods});
  } else if (!stop) {
    TellOfPods(context, workload, PodsAreReady(context));
  }
}

void DelegateToMultiKueue(ReconcileContext& context) {
  const std::optional<QueueSeen>& queue = context.snapshot.queue;
  const core::JobStatus& status = context.snapshot.status;
  if (!queue || queue->queues != Queues::kThere) return;
  const bool wanted = !context.spec().suspend && !queue->name.empty();
  const std::optional<WorkloadSeen>& workload = queue->workload;
  if (!workload) {
    if (wanted && !WaitsAfterRefusal(context)) {
      context.AddAction(WorkloadFor(*context.snapshot.job, PodsOf(context.spec())));
    }
    return;
  }
  if (workload->deleting || workload->finished) return;
  if (!wanted || !Fits(context.spec(), *queue, *workload)) {
    context.AddAction(Drop(*workload));
  } else if (workload->evicted && workload->holds_quota) {
    if (HasLeftElsewhere(context, *workload)) {
      context.AddAction(ReleaseWorkload{workload->name, workload->version});
    }
  } else {
    const Condition* ready = core::FindCondition(status.conditions, "PodsReady");
    TellOfPods(context, *workload, ready != nullptr && ready->status == Condition::Value::kTrue);
  }
}

void FinishWorkload(ReconcileContext& context) {
  const std::optional<QueueSeen>& queue = context.snapshot.queue;
  if (!queue || !queue->workload) return;
  KeepGrowth(context, *queue, false);
  if (queue->workload->finished || !HasLeft(context)) return;
  const core::JobStatus& status = context.snapshot.status;
  const bool succeeded = status.state == core::JobState::kSucceeded;
  context.AddAction(TellWorkload{.name = queue->workload->name,
                                 .uid = queue->workload->uid,
                                 .type = "Finished",
                                 .holds = true,
                                 .reason = succeeded ? "Succeeded" : "Failed",
                                 .message = status.reason});
}

void ObserveQueue(ReconcileContext& context) {
  const std::optional<QueueSeen>& queue = context.snapshot.queue;
  std::optional<core::QueueStatus>& told = context.next.queue;
  if (!queue) {
    told.reset();
    SetCondition(context, "Admitted", false, "NotQueued", "");
    return;
  }
  if (queue->queues != Queues::kThere) return;
  if (!queue->workload) {
    told.reset();
    SetCondition(context, "Admitted", false, "NoWorkload", "");
    return;
  }
  const WorkloadSeen& workload = *queue->workload;
  told = {.workload = workload.name,
          .cluster_queue = workload.cluster_queue,
          .flavors = workload.flavors};
  const bool admitted = workload.admitted && !workload.evicted;
  PutCondition(context, "Admitted", admitted ? Condition::Value::kTrue : Condition::Value::kFalse,
               workload.reason.empty() ? "Pending" : workload.reason.c_str(), workload.message);
}

bool IsGrowthMissing(const ReconcileContext& context) {
  return WantsGrowth(context) && !context.snapshot.queue->growth &&
         context.now.wall >= GrowthDue(context);
}

std::string WhyNoGrowth(const ReconcileContext& context) {
  const std::optional<QueueSeen>& queue = context.snapshot.queue;
  if (!queue || !queue->growth || queue->growth->deleting) return "";
  return "a growth to " + std::to_string(context.spec().num_machines) +
         " machines waits for queue " + queue->name + ": " + Words(*queue->growth);
}

}  // namespace lockstep::control
