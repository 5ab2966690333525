#include "tests/sim/queue.h"

#include <algorithm>
#include <utility>

#include "tests/sim/control_plane.h"
#include "tests/sim/world.h"

namespace lockstep::sim {

using control::WorkloadSeen;

void Queue::Begin(std::function<void(const ApiServer::Change&)> apply) {
  apply_ = std::move(apply);
  Look();
}

void Queue::Look() {
  const std::optional<WorkloadSeen>& workload = api_.objects().workload;
  const bool free = world_.now() >= free_at_;
  if (workload && workload->holds_quota && !free && !workload->evicted) {
    world_.Log("queue: the job is to leave");
    apply_(Versioned([](WorkloadSeen& seen) { seen.evicted = true; }));
  } else if (workload && !workload->holds_quota && !workload->finished && free) {
    world_.Log("queue: the job is admitted");
    apply_(Versioned([](WorkloadSeen& seen) {
      seen.holds_quota = seen.admitted = true;
      seen.evicted = seen.waits = false;
    }));
  } else if (workload && !workload->holds_quota && !free && !workload->waits) {
    apply_(Versioned([](WorkloadSeen& seen) { seen.waits = true; }));
  }
  world_.queue().After(world_.random().Between(milliseconds(20), milliseconds(400)),
                       [this] { Look(); });
}

void Queue::Preempt(Duration duration) { free_at_ = std::max(free_at_, world_.now() + duration); }

std::optional<ApiServer::Change> Queue::MadeBy(const control::MakeWorkload& make) {
  if (api_.objects().workload) return std::nullopt;
  WorkloadSeen made;
  made.name = "trainingjob-gpt";
  made.uid = made.name + "/" + std::to_string(world_.NextPid());
  made.owned = true;
  made.queue = kName;
  made.count = make.pods;
  made.version = std::to_string(++versions_);
  return [made](Objects& objects) { objects.workload = made; };
}

std::optional<ApiServer::Change> Queue::ToldBy(const control::TellWorkload& tell) {
  const std::optional<WorkloadSeen>& workload = api_.objects().workload;
  if (!workload || workload->uid != tell.uid) return std::nullopt;
  return Versioned([type = tell.type, holds = tell.holds](WorkloadSeen& seen) {
    if (type == "Finished") {
      seen.finished = holds;
      return;
    }
    seen.recovers = seen.pods_ready.value_or(false) && !holds;
    seen.pods_ready = holds;
  });
}

std::optional<ApiServer::Change> Queue::ReleasedBy(const control::ReleaseWorkload& release) {
  const std::optional<WorkloadSeen>& workload = api_.objects().workload;
  if (!workload || workload->version != release.version) return std::nullopt;
  JudgeRelease();
  world_.Log("queue: what the job held is released");
  return Versioned([](WorkloadSeen& seen) {
    seen.holds_quota = seen.admitted = false;
    seen.waits = true;
    seen.pods_ready = false;
  });
}

std::optional<ApiServer::Change> Queue::DroppedBy(const control::DropWorkload& drop) const {
  const std::optional<WorkloadSeen>& workload = api_.objects().workload;
  if (!workload || workload->uid != drop.uid) return std::nullopt;
  if (workload->holds_quota) JudgeRelease();
  world_.Log("queue: the job has left it");
  return [](Objects& objects) { objects.workload.reset(); };
}

void Queue::JudgeMade(const std::string& pod) const {
  const std::optional<WorkloadSeen>& workload = api_.objects().workload;
  if (workload && workload->holds_quota) return;
  world_.invariants().Violate("AdmittedBeforeMade", pod + " is made, which nobody has admitted");
}

// Of a pod that was to leave long ago nothing runs: its leases have ended.
void Queue::JudgeRelease() const {
  const Objects& objects = api_.objects();
  for (const auto& [name, pod] : objects.pods) {
    const bool dead = pod.leave_by && ControlPlane::WallOf(world_.now()) >=
                                          *pod.leave_by + objects.status.machine_lost_after;
    if (pod.over() || dead) continue;
    world_.invariants().Violate("LeftBeforeReleased",
                                "what is held goes back while " + name + " lives");
  }
}

ApiServer::Change Queue::Versioned(Edit edit) {
  return [edit = std::move(edit), version = std::to_string(++versions_)](Objects& objects) {
    if (!objects.workload) return;
    edit(*objects.workload);
    objects.workload->version = version;
  };
}

}  // namespace lockstep::sim
