// Kubelets, and the scheduler before them: pods become machines, and what happens to a machine is
// told to the API server, as long as its node reaches it. Nothing is force-deleted: an object goes
// when its container has ended.
#ifndef LOCKSTEP_TESTS_SIM_KUBELETS_H_
#define LOCKSTEP_TESTS_SIM_KUBELETS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "core/gang/coordinator/coordinator.h"
#include "tests/sim/api_server.h"
#include "tests/sim/machine.h"

namespace lockstep::sim {

class World;

class Kubelets {
 public:
  Kubelets(World& world, ApiServer& api) : world_(world), api_(api) {}

  void Begin() { Tick(); }
  // A pod was made; `policy` is its coordinator's, should it have one.
  void OnPod(const std::string& name, const MachineSpec& spec, const core::FailurePolicy& policy);

  // Its pod is deleted, with this grace for the machine.
  void Drain(Machine& machine, Duration grace);

  // The node of this machine is deleted: its pods are gone at once, their containers after `most`
  // at the latest, though nobody sees it. Nobody declares a node gone that cannot be reached and
  // still runs: there it was switched off; unless it `lives_on`, until the partition ends.
  void DeleteNode(const Machine& machine, Duration most, bool lives_on);

  // A spare is evicted, or its kubelet dies with its node, for ever and unseen.
  void HitSpare(bool stuck);

  // Containers of which the API server knows nothing are ended, up to `most` later.
  void EndUnknown(Duration most);

  // Pods that are made meanwhile wait for a node: the duration, or one that is given up meanwhile
  // by a machine that is told to go.
  void NoRoom(Duration duration);
  bool HasRoom() const;

  // The node of this machine's pod is cordoned for so long. Its next pod gets another.
  void SickNode(const Machine& machine, Duration duration);
  // Whether the node of this pod, by UID, ever was.
  bool WasSick(const std::string& uid) const { return sick_.contains(uid); }
  // When it first fell sick.
  Time SickAt(const std::string& uid) const { return sick_.at(uid); }
  // The most spares that had nodes at one moment since then.
  size_t MostPlacesSince(Time since) const;

  // Null while there is no container.
  Machine* MachineOf(const std::string& pod) const;
  const core::FailurePolicy& policy_at_birth() const { return policy_; }

 private:
  struct Container {
    MachineSpec spec;
    core::FailurePolicy policy;
    Time start_at{};
    Machine* machine = nullptr;
    Time heard_at{};  // of its node
    bool asked = false;
    bool gives_way = false;  // of the operator's own will, from a node that is well
    Time kill_at = kNever;
  };

  Duration StartLatency();
  void Place(const std::string& name);
  void Tick();
  void LookAtSpares();
  void Look(const std::string& name, Container& container);
  void ShowNode(const std::string& name, Container& container);
  void Tell(const std::string& name, const Machine& machine);
  void Remove(const std::string& name);

  World& world_;
  ApiServer& api_;
  std::map<std::string, Container> containers_;  // of every pod that ever was
  std::set<std::string> stuck_;                  // spares, by UID
  std::map<std::string, Time> sick_;             // pods whose node was cordoned, by UID
  std::map<Time, size_t> places_;                // spares that had nodes, where that changed
  core::FailurePolicy policy_;
  Time room_at_{};
  int given_up_ = 0;  // nodes, since there is no room
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_TESTS_SIM_KUBELETS_H_
