#include "operator/control/policies.h"

namespace lockstep::control {
namespace {

// Ends that machine 0 is told of, so that it need not wait for silence: of every machine but its
// own, the newest attempt that was seen to be over.
std::vector<core::GangWish::Terminated> Terminated(const Draft& draft) {
  std::vector<core::GangWish::Terminated> ended;
  for (const Machine& machine : draft.machines) {
    if (machine.index == 0) continue;
    const kube::PodView* last = nullptr;
    if (machine.life == Life::kEnded) last = machine.pod;
    for (const kube::PodView* pod : machine.earlier) {
      if (IsOver(*pod) && (last == nullptr || pod->attempt > last->attempt)) last = pod;
    }
    if (last == nullptr) continue;
    const bool out_of_memory = last->worker.reason == "OOMKilled";
    ended.push_back({machine.index, last->attempt,
                     out_of_memory ? core::Cause::kOutOfMemory : core::Cause::kMachineLost});
  }
  return ended;
}

std::vector<core::GangWish::Fenced> Fenced(const Draft& draft) {
  std::vector<core::GangWish::Fenced> fenced;
  for (const Machine& machine : draft.machines) {
    if (machine.attempt > 1 && PredecessorsDead(draft.snapshot, machine)) {
      fenced.push_back({machine.index, machine.attempt});
    }
  }
  return fenced;
}

}  // namespace

void SpeakToGang(Draft& draft, const std::optional<Stop>& stop) {
  if (draft.machines.empty() || draft.machines.front().life != Life::kRunning) return;
  const core::Spec& spec = draft.spec();
  core::GangWish wish;
  wish.job_uid = draft.snapshot.uid;
  wish.epoch = draft.snapshot.status.epoch;
  wish.observed_generation = draft.snapshot.generation;
  wish.policy = spec.failure_policy;
  wish.hang_timeout = spec.health.hang_timeout;
  wish.machine_failures = draft.snapshot.status.counters;
  wish.terminated = Terminated(draft);
  wish.fenced = Fenced(draft);
  if (stop) wish.stop = core::GangWish::StopWish{stop->reason, spec.grace_period};
  draft.decision.wish = std::move(wish);
}

}  // namespace lockstep::control
