#include "operator/policy/queue.h"

#include <utility>

#include "operator/policy/policies.h"
#include "operator/policy/rules.h"

namespace lockstep::control {
namespace {

using core::Condition;

// Spares take as much as machines.
int64_t PodsOf(const core::Spec& spec) { return int64_t{spec.num_machines} + spec.spare_machines; }

// It stands for the job as it is now.
bool Fits(const core::Spec& spec, const QueueSeen& queue, const WorkloadSeen& workload) {
  return !workload.finished && workload.count == PodsOf(spec) && workload.queue == queue.name;
}

// A gang may be made.
bool IsAdmitted(const core::Spec& spec, const QueueSeen& queue) {
  const std::optional<WorkloadSeen>& workload = queue.workload;
  return workload && Fits(spec, queue, *workload) && !workload->deleting && workload->active &&
         workload->admitted && !workload->evicted;
}

// A gang that was made may not run on. Where nobody has judged it (its Workload was deleted and
// made anew, Kueue is gone), it does.
bool IsTakenBack(const QueueSeen& queue) {
  const std::optional<WorkloadSeen>& workload = queue.workload;
  return workload &&
         (workload->evicted || !workload->active || workload->finished || workload->waits);
}

std::string Words(ReconcileContext& context, const QueueSeen& queue) {
  if (queue.queues == Queues::kAbsent) {
    return "Kueue is not installed, or the operator was not told of it (--kueue) or may not read "
           "its "
           "objects (the operator's log says why)";
  }
  if (queue.queues == Queues::kUnknown) return "Kueue's objects are being read";
  if (!queue.workload && !queue.prebuilt.empty()) {
    return "its Workload " + queue.prebuilt + ", which MultiKueue makes, is not there";
  }
  if (!queue.workload) {
    return context.refusal() == nullptr ? "its Workload is being made" : WhyNotRunning(context);
  }
  const WorkloadSeen& workload = *queue.workload;
  if (!workload.active) {
    return "Workload " + workload.name + " is not active" +
           (workload.message.empty() ? "" : ": " + workload.message);
  }
  if (workload.message.empty()) return "Kueue has not yet looked at Workload " + workload.name;
  return workload.message;
}

// Whether Kueue is to hear of it: only what differs from what it was told.
void TellOfPods(ReconcileContext& context, const WorkloadSeen& workload, bool ready) {
  if (!workload.admitted || ready == workload.pods_ready.value_or(false)) return;
  context.Do(TellWorkload{.name = workload.name,
                          .uid = workload.uid,
                          .type = "PodsReady",
                          .holds = ready,
                          .reason = !ready              ? "WaitForRecovery"
                                    : workload.recovers ? "Recovered"
                                                        : "Started",
                          .message = ready ? "" : context.next.ready + " machines are ready"});
}

// Nothing of it runs on the other cluster any more, as its status says; or nothing has come from
// there for as long as that can take, and Kueue, which has given that cluster up, is not held up.
bool HasLeftElsewhere(ReconcileContext& context, const WorkloadSeen& workload) {
  const core::JobStatus& status = context.snapshot.status;
  const bool known = status.epoch > 0;
  if (!known || status.state == core::JobState::kQueued ||
      status.state == core::JobState::kSuspended || IsFinished(status)) {
    return true;
  }
  const WallTime latest = workload.evicted_at + StopPatience(context) +
                          context.spec().failure_policy.machine_lost_after;
  if (context.now.wall >= latest) return true;
  context.WakeAt(context.now.Boot(latest));
  return false;
}

MakeWorkload WorkloadFor(const core::TrainingJob& job) {
  const std::map<std::string, std::string>& labels = job.metadata.labels;
  const auto priority = labels.find(kPriorityLabel);
  MakeWorkload make;
  make.pods = PodsOf(job.spec);
  make.of_queues = priority != labels.end() && !priority->second.empty();
  make.priority_class = make.of_queues ? priority->second : job.spec.priority_class_name;
  return make;
}

}  // namespace

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
  return queue->queues == Queues::kThere && queue->workload && queue->workload->admitted;
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
  if (!queue->workload) {
    if (suspended || queue->name.empty() || !queue->prebuilt.empty()) return;
    if (WaitsAfterRefusal(context)) return;
    context.Do(WorkloadFor(*context.snapshot.job));
    return;
  }
  const WorkloadSeen& workload = *queue->workload;
  if (workload.deleting) return;
  if (!workload.owned) return context.Do(AdoptWorkload{workload.name, workload.version});
  const bool may_release = left || !Holds(Rule::kLeftBeforeReleased);
  const bool of_use = !suspended && Fits(context.spec(), *queue, workload);
  if (left && !of_use && queue->prebuilt.empty()) {
    context.Do(DropWorkload{workload.name, workload.uid});
  } else if (may_release && workload.evicted && workload.holds_quota) {
    context.Do(ReleaseWorkload{workload.name, workload.version});
  } else if (!stop) {
    TellOfPods(context, workload, PodsAreReady(context));
  }
}

void QueueElsewhere(ReconcileContext& context) {
  const std::optional<QueueSeen>& queue = context.snapshot.queue;
  const core::JobStatus& status = context.snapshot.status;
  if (IsFinished(status)) return DeleteInTime(context);
  if (!queue || queue->queues != Queues::kThere) return;
  const bool wanted = !context.spec().suspend && !queue->name.empty();
  const std::optional<WorkloadSeen>& workload = queue->workload;
  if (!workload) {
    if (wanted && !WaitsAfterRefusal(context)) context.Do(WorkloadFor(*context.snapshot.job));
    return;
  }
  if (workload->deleting || workload->finished) return;
  if (!wanted || !Fits(context.spec(), *queue, *workload)) {
    context.Do(DropWorkload{workload->name, workload->uid});
  } else if (workload->evicted && workload->holds_quota) {
    if (HasLeftElsewhere(context, *workload)) {
      context.Do(ReleaseWorkload{workload->name, workload->version});
    }
  } else {
    const Condition* ready = core::FindCondition(status.conditions, "PodsReady");
    TellOfPods(context, *workload, ready != nullptr && ready->status == Condition::Value::kTrue);
  }
}

void FinishWorkload(ReconcileContext& context) {
  const std::optional<QueueSeen>& queue = context.snapshot.queue;
  if (!queue || !queue->workload || queue->workload->finished || !HasLeft(context)) return;
  const core::JobStatus& status = context.snapshot.status;
  const bool succeeded = status.state == core::JobState::kSucceeded;
  context.Do(TellWorkload{.name = queue->workload->name,
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

}  // namespace lockstep::control
