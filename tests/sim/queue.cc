#include "tests/sim/queue.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/sim/control_plane.h"
#include "tests/sim/world.h"

namespace lockstep::sim {
namespace {

using control::WorkloadSeen;

std::string NameOf(const control::MakeWorkload& make) {
  return "trainingjob-gpt" + (make.slice > 0 ? "-s" + std::to_string(make.slice) : "");
}

std::string MachineName(int32_t index) { return "machine " + std::to_string(index); }

bool Holds(const WorkloadSeen& workload) { return workload.holds_quota && !workload.finished; }

void Replace(WorkloadSeen& seen) { seen.finished = seen.replaced = true; }

}  // namespace

void Queue::Begin(std::function<void(const ApiServer::Change&)> apply) {
  apply_ = std::move(apply);
  Look();
}

void Queue::Look() {
  std::vector<WorkloadSeen> all = api_.objects().workloads;
  std::ranges::sort(all, {}, &WorkloadSeen::slice);
  for (const WorkloadSeen& each : all) {
    if (!each.finished) LookAt(each);
  }
  world_.queue().After(world_.random().Between(milliseconds(20), milliseconds(400)),
                       [this] { Look(); });
}

void Queue::LookAt(const WorkloadSeen& workload) {
  const bool free = world_.now() >= free_at_;
  const WorkloadSeen* holder = Holder();
  const bool alone = holder == nullptr || holder->name == workload.name;
  if (!Holds(workload)) {
    const bool may_grow = alone || (!holder->evicted && world_.now() >= grows_at_);
    if (free && may_grow) return Admit(workload);
    if (workload.waits) return;
    apply_(Versioned(workload.name, [](WorkloadSeen& seen) { seen.waits = true; }));
  } else if (!alone) {
    if (!world_.random().Chance(50)) return;
    world_.Log("queue: ", workload.name, " is replaced");
    apply_(Versioned(workload.name, Replace));
  } else if (!free && !workload.evicted) {
    world_.Log("queue: the job is to leave");
    apply_(Versioned(workload.name, [](WorkloadSeen& seen) { seen.evicted = true; }));
  }
}

void Queue::Admit(const WorkloadSeen& workload) {
  world_.Log("queue: the job is admitted, as ", workload.name, " of ", workload.count);
  apply_(Versioned(workload.name, [](WorkloadSeen& seen) {
    seen.holds_quota = seen.admitted = true;
    seen.evicted = seen.waits = false;
  }));
}

void Queue::Preempt(Duration duration) { free_at_ = std::max(free_at_, world_.now() + duration); }

// ---- what the operator writes ----

bool Queue::Has(const control::MakeWorkload& make) const { return Find(NameOf(make)) != nullptr; }

ApiServer::Change Queue::MadeBy(const control::MakeWorkload& make) {
  WorkloadSeen made;
  made.name = NameOf(make);
  made.slice = make.slice;
  made.uid = made.name + "/" + std::to_string(world_.NextPid());
  made.owned = true;
  made.elastic = make.elastic;
  made.queue = kName;
  made.count = make.pods;
  made.version = std::to_string(++versions_);
  if (make.slice > 0) world_.Log("queue: ", made.name, " of ", made.count, " is asked for");
  return [made](Objects& objects) { objects.workloads.push_back(made); };
}

std::optional<ApiServer::Change> Queue::ResizedBy(const control::ResizeWorkload& resize) {
  const WorkloadSeen* workload = Find(resize.name);
  if (workload == nullptr || workload->version != resize.version || !workload->elastic) {
    return std::nullopt;
  }
  if (Holds(*workload)) {
    if (resize.pods > workload->count) return std::nullopt;
    if (workload == Holder()) JudgeRelease(resize.pods);
    grows_at_ = world_.now() + world_.random().Between(Duration::zero(), seconds(4));
  }
  world_.Log("queue: ", resize.name, " is of ", resize.pods);
  return Versioned(resize.name, [pods = resize.pods](WorkloadSeen& seen) { seen.count = pods; });
}

std::optional<ApiServer::Change> Queue::ToldBy(const control::TellWorkload& tell) {
  const WorkloadSeen* workload = Find(tell.name);
  if (workload == nullptr || workload->uid != tell.uid) return std::nullopt;
  if (tell.type == "Finished") {
    if (tell.reason == "WorkloadSliceReplaced") return Versioned(tell.name, Replace);
    return Versioned(tell.name, [](WorkloadSeen& seen) { seen.finished = true; });
  }
  return Versioned(tell.name, [holds = tell.holds](WorkloadSeen& seen) {
    seen.recovers = seen.pods_ready.value_or(false) && !holds;
    seen.pods_ready = holds;
  });
}

std::optional<ApiServer::Change> Queue::ReleasedBy(const control::ReleaseWorkload& release) {
  const WorkloadSeen* workload = Find(release.name);
  if (workload == nullptr || workload->version != release.version) return std::nullopt;
  if (workload == Holder()) JudgeRelease(0);
  world_.Log("queue: what the job held is released");
  return Versioned(release.name, [](WorkloadSeen& seen) {
    seen.holds_quota = seen.admitted = false;
    seen.waits = true;
    seen.pods_ready = false;
  });
}

std::optional<ApiServer::Change> Queue::DroppedBy(const control::DropWorkload& drop) const {
  const WorkloadSeen* workload = Find(drop.name);
  if (workload == nullptr || workload->version != drop.version) return std::nullopt;
  if (workload == Holder()) JudgeRelease(0);
  world_.Log("queue: ", drop.name, " is deleted");
  return [name = drop.name](Objects& objects) {
    std::erase_if(objects.workloads, [&](const WorkloadSeen& each) { return each.name == name; });
  };
}

// ---- what it is judged by ----

void Queue::JudgeMade(const std::string& pod, uint32_t machine) const {
  const WorkloadSeen* holder = Holder();
  std::set<std::string> users = Users();
  users.insert(MachineName(static_cast<int32_t>(machine)));
  if (holder != nullptr && static_cast<int64_t>(users.size()) <= holder->count) return;
  world_.invariants().Violate("AdmittedBeforeMade", pod + " is made, which nobody has admitted");
}

void Queue::JudgeRelease(int64_t left) const {
  const std::set<std::string> users = Users();
  if (static_cast<int64_t>(users.size()) <= left) return;
  world_.invariants().Violate("LeftBeforeReleased",
                              "what is held goes back while " + *users.rbegin() + " lives");
}

// Of a pod that was to leave long ago nothing runs: its leases have ended.
std::set<std::string> Queue::Users() const {
  const Objects& objects = api_.objects();
  std::set<std::string> users;
  for (const auto& [name, pod] : objects.pods) {
    const bool dead = pod.leave_by && ControlPlane::WallOf(world_.now()) >=
                                          *pod.leave_by + objects.status.machine_lost_after;
    if (pod.over() || dead) continue;
    users.insert(pod.spare >= 0 ? name : MachineName(pod.machine));
  }
  return users;
}

// ---- the Workloads ----

const WorkloadSeen* Queue::Find(const std::string& name) const {
  const std::vector<WorkloadSeen>& all = api_.objects().workloads;
  const auto found = std::ranges::find(all, name, &WorkloadSeen::name);
  return found == all.end() ? nullptr : &*found;
}

const WorkloadSeen* Queue::Holder() const {
  const WorkloadSeen* last = nullptr;
  for (const WorkloadSeen& each : api_.objects().workloads) {
    if (Holds(each) && (last == nullptr || last->slice < each.slice)) last = &each;
  }
  return last;
}

ApiServer::Change Queue::Versioned(const std::string& name, Edit edit) {
  return [name, edit = std::move(edit), version = std::to_string(++versions_)](Objects& objects) {
    for (WorkloadSeen& each : objects.workloads) {
      if (each.name != name) continue;
      edit(each);
      each.version = version;
    }
  };
}

}  // namespace lockstep::sim
