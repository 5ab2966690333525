#include "tests/sim/kubelets.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "tests/sim/control_plane.h"
#include "tests/sim/world.h"

namespace lockstep::sim {
namespace {

using control::MachineEnd;
using control::MachineObservation;
using control::NodeState;
using control::Stage;

constexpr Duration kTick = milliseconds(40);
// A node of which nothing is heard for so long is called unreachable: later than a machine is lost.
constexpr Duration kNodeSilence = seconds(3);

bool IsPlace(const MachineObservation& pod) {
  return pod.spare >= 0 && pod.stage != Stage::kUnplaced && pod.sick.empty();
}

}  // namespace

void Kubelets::OnPod(const std::string& name, const MachineSpec& spec,
                     const core::FailurePolicy& policy) {
  Container container;
  container.spec = spec;
  container.policy = policy;
  container.start_at = world_.now() + StartLatency();
  containers_[name] = std::move(container);
}

Duration Kubelets::StartLatency() {
  return world_.random().Between(milliseconds(5), milliseconds(400));
}

void Kubelets::NoRoom(Duration duration) {
  if (world_.now() >= room_at_) given_up_ = 0;
  room_at_ = std::max(room_at_, world_.now() + duration);
}

bool Kubelets::HasRoom() const { return world_.now() >= room_at_ || given_up_ > 0; }

Machine* Kubelets::MachineOf(const std::string& pod) const {
  const auto found = containers_.find(pod);
  return found == containers_.end() ? nullptr : found->second.machine;
}

void Kubelets::Tick() {
  for (auto& [name, container] : containers_) Look(name, container);
  LookAtSpares();
  world_.queue().After(kTick, [this] { Tick(); });
}

// Each tick one step of one spare, if any is due: they are no machines, and start and end at once.
void Kubelets::LookAtSpares() {
  const auto places = static_cast<size_t>(std::ranges::count_if(
      api_.objects().pods, [](const auto& each) { return IsPlace(each.second); }));
  if (places_.empty() || places_.rbegin()->second != places) places_[world_.now()] = places;
  for (const auto& [name, pod] : api_.objects().pods) {
    if (pod.spare < 0 || stuck_.contains(pod.uid)) continue;
    if (pod.leave_by) return Remove(name);
    if (pod.over() || (pod.stage == Stage::kUnplaced && !HasRoom())) continue;
    if (pod.stage == Stage::kUnplaced) return Place(name);
    if (pod.stage == Stage::kRunning) continue;
    api_.Apply(Kind::kPods, [name](Objects& objects) {
      objects.pods.at(name).stage = Stage::kRunning;
      objects.pods.at(name).ready = true;
    });
    return;
  }
}

void Kubelets::HitSpare(bool stuck) {
  for (const auto& [name, pod] : api_.objects().pods) {
    if (pod.spare < 0 || pod.over() || stuck_.contains(pod.uid)) continue;
    world_.Log("spare ", name, stuck ? " is stuck" : " is evicted");
    if (stuck) {
      stuck_.insert(pod.uid);
      return;
    }
    MachineEnd end;
    end.agent_ran = false;
    end.asked = true;
    api_.Apply(Kind::kPods, [name, end](Objects& objects) {
      objects.pods.at(name).end = end;
      objects.pods.at(name).all_ended = true;
    });
    return;
  }
}

void Kubelets::SickNode(const Machine& machine, Duration duration) {
  for (const auto& [name, container] : containers_) {
    const auto pod = api_.objects().pods.find(name);
    if (container.machine != &machine || pod == api_.objects().pods.end()) continue;
    sick_.emplace(pod->second.uid, world_.now());
    const auto set = [this, uid = pod->second.uid, pod_name = name](const std::string& sick) {
      api_.Apply(Kind::kPods, [uid, pod_name, sick](Objects& objects) {
        const auto there = objects.pods.find(pod_name);
        if (there != objects.pods.end() && there->second.uid == uid) there->second.sick = sick;
      });
    };
    set("is cordoned");
    world_.queue().After(duration, [set] { set(""); });
  }
}

size_t Kubelets::MostPlacesSince(Time since) const {
  auto most = static_cast<size_t>(std::ranges::count_if(
      api_.objects().pods, [](const auto& each) { return IsPlace(each.second); }));
  for (const auto& [at, places] : std::ranges::reverse_view(places_)) {
    most = std::max(most, places);
    if (at <= since) break;
  }
  return most;
}

void Kubelets::Look(const std::string& name, Container& container) {
  const auto found = api_.objects().pods.find(name);
  if (found == api_.objects().pods.end()) return;
  const MachineObservation& pod = found->second;
  if (container.machine == nullptr) {
    if (pod.leave_by) return Remove(name);
    if (pod.stage == Stage::kUnplaced) {
      if (!HasRoom()) return;
      container.start_at = world_.now() + StartLatency();
      return Place(name);
    }
    if (world_.now() < container.start_at) return;
    policy_ = container.policy;
    container.machine = &world_.AddMachine(container.spec);
    container.machine->Boot();
    container.heard_at = world_.now();
  }
  ShowNode(name, container);
  Machine& machine = *container.machine;
  if (world_.now() >= container.kill_at) machine.Kill(false);
  if (world_.network().Blocked(machine.node(), kOperatorNode)) return;
  if (pod.leave_by && !container.asked && !machine.terminated()) {
    container.asked = container.gives_way = true;
    const Duration left =
        std::max<Duration>(*pod.leave_by - ControlPlane::WallOf(world_.now()), seconds(1));
    container.kill_at = world_.now() + left;
    machine.Terminate(std::min(world_.shape().grace, left));
  }
  const bool ended = machine.terminated() && world_.now() > machine.terminated_at() + kTick / 2;
  const bool told = ended ? pod.over() : pod.stage == Stage::kRunning;
  if (!told && !pod.over()) {
    // Of a pod that was deleted before its end was told, as after a restore, the policy sees both.
    if (ended && pod.leave_by) machine.ShowAsked();
    Tell(name, machine);
  }
  if (!ended || !pod.leave_by) return;
  if (container.gives_way && pod.node_state == NodeState::kWell) ++given_up_;
  Remove(name);
}

void Kubelets::ShowNode(const std::string& name, Container& container) {
  if (!world_.network().Blocked(container.machine->node(), kOperatorNode)) {
    container.heard_at = world_.now();
  }
  const bool lost = world_.now() >= container.heard_at + kNodeSilence;
  const NodeState state = lost ? NodeState::kUnreachable : NodeState::kWell;
  if (api_.objects().pods.at(name).node_state == state) return;
  world_.Log("the node of pod ", name, lost ? " is unreachable" : " is heard of again");
  if (lost) world_.op().OnNodeLost({container.spec.index, container.spec.attempt});
  api_.Apply(Kind::kPods,
             [name, state](Objects& objects) { objects.pods.at(name).node_state = state; });
}

void Kubelets::Place(const std::string& name) {
  if (world_.now() < room_at_) --given_up_;
  api_.Apply(Kind::kPods,
             [name](Objects& objects) { objects.pods.at(name).stage = Stage::kPlaced; });
}

void Kubelets::Drain(Machine& machine, Duration grace) {
  for (auto& [name, container] : containers_) {
    const auto pod = api_.objects().pods.find(name);
    if (container.machine != &machine || pod == api_.objects().pods.end()) continue;
    if (pod->second.leave_by || container.asked) continue;
    // Before it is recorded that it was made, it would be made again.
    if (container.spec.attempt > api_.objects().status.created_epoch) continue;
    container.asked = true;
    container.kill_at = world_.now() + grace + seconds(15);
    const WallTime by = ControlPlane::WallOf(container.kill_at);
    api_.Apply(Kind::kPods, [name, by](Objects& objects) { objects.pods.at(name).leave_by = by; });
    machine.Terminate(grace);
  }
}

void Kubelets::DeleteNode(const Machine& machine, Duration most, bool lives_on) {
  for (auto& [name, container] : containers_) {
    if (container.machine != &machine || !api_.objects().pods.contains(name)) continue;
    // Before it is recorded that it was made, it would be made again.
    if (container.spec.attempt > api_.objects().status.created_epoch) continue;
    const Time heard = world_.network().ClearAt(machine.node(), kOperatorNode);
    world_.Log("pod ", name, " vanishes with its node");
    Remove(name);
    Time end = world_.now();
    if (heard == Time::zero() || lives_on) {
      end = std::max(end, heard) + world_.random().Between(Duration::zero(), most);
    }
    world_.queue().At(end, [ended = container.machine] { ended->Kill(false); });
  }
}

void Kubelets::EndUnknown(Duration most) {
  for (auto& [name, container] : containers_) {
    if (container.machine == nullptr || api_.objects().pods.contains(name)) continue;
    world_.queue().After(world_.random().Between(Duration::zero(), most),
                         [ended = container.machine] { ended->Kill(false); });
  }
}

void Kubelets::Tell(const std::string& name, const Machine& machine) {
  std::optional<MachineEnd> end;
  if (machine.terminated()) end = EndOf(machine);
  api_.Apply(Kind::kPods, [name, end](Objects& objects) {
    MachineObservation& pod = objects.pods.at(name);
    pod.stage = Stage::kRunning;
    pod.address = "of " + name;
    pod.ready = !end;
    pod.end = end;
    pod.all_ended = end.has_value();
  });
}

void Kubelets::Remove(const std::string& name) {
  api_.Apply(Kind::kPods, [name](Objects& objects) { objects.pods.erase(name); });
}

}  // namespace lockstep::sim
