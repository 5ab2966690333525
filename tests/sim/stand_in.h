// StandIn: a small operator, with the API server it writes to: attempts from one epoch that is
// raised by compare-and-swap before anything is created, replacement on evidence only, desired
// states to the coordinator, and the verdict. It is quick and unkind, so most schedules of the
// gang's own state machines run under it.
#ifndef LOCKSTEP_TESTS_SIM_STAND_IN_H_
#define LOCKSTEP_TESTS_SIM_STAND_IN_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "core/gang/coordinator.h"
#include "tests/sim/network.h"
#include "tests/sim/operator.h"

namespace lockstep::sim {

class Machine;
struct MachineSpec;

class StandIn : public Operator {
 public:
  explicit StandIn(World& world) : world_(world) {}

  void Begin() override;
  void Down(Duration duration) override;
  void Pause(Duration duration) override { pause_ = duration; }
  void Suspend(bool delete_pods) override;
  void Resume() override;
  void SetL(Duration length) override;
  void StaleService(Duration duration) override;
  void DeleteNode(Machine& machine, Duration most) override;
  void NoRoom(Duration) override {}  // what it makes is placed

  core::FailurePolicy policy_at_birth() const override;
  std::optional<Node> Endpoint() const override;
  uint32_t attempt(uint32_t index) const override { return attempts_.at(index); }
  const std::optional<core::Verdict>& verdict() const override { return verdict_; }
  bool over() const override { return over_; }
  const core::Counters& told(Node node) const override;
  void OnDesiredStateTaken(Node node, const core::DesiredState& desired) override;
  Duration longest_l() const override { return longest_l_; }

 private:
  struct Told {
    Node node;
    core::Counters counters;
  };

  void Tick();
  void Observe();
  void Act();
  void Judge();
  void Replace();
  void Delete();
  void Tell();
  void Create(const std::vector<uint32_t>& indices, uint32_t epoch);
  void Add(const MachineSpec& spec);
  void DeletePod(Machine& machine);
  bool Sees(const Machine& machine) const;
  bool SeesEnd(const Machine& machine) const;
  bool Asks(const Machine& machine) const;
  Machine* Current(uint32_t index) const;
  // The containers of every attempt below the current one, those that may yet be made among them.
  bool EarlierEnded(uint32_t index) const;

  World& world_;
  // The API server.
  uint32_t epoch_ = 0;
  std::vector<uint32_t> attempts_;
  core::FailurePolicy policy_;
  int64_t spec_generation_ = 1;
  bool suspended_ = false;
  bool delete_pods_ = false;
  core::Counters counters_;
  std::optional<core::Verdict> verdict_;
  bool over_ = false;
  std::vector<std::pair<Time, Node>> endpoints_;

  // The leader.
  Time down_until_{};
  Duration pause_{};
  Time stale_until_{};
  struct Intent {
    uint32_t index;
    uint32_t attempt;
    Time at;
  };
  std::vector<Intent> intents_;  // every attempt that was recorded
  std::vector<bool> creating_;
  std::vector<bool> lost_;  // by the evidence of the last look
  std::vector<Node> deleted_;
  std::vector<Node> charged_;  // containers that are counted
  std::vector<Told> told_;
  Duration longest_l_{};
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_TESTS_SIM_STAND_IN_H_
