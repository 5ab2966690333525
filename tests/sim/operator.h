// Operator: what a schedule does to the operator of the job, and what the rest of the world sees of
// it: of a cluster (control_plane.h), or `lockstep run` (local_control.h). Both decide by
// operator/policy; what becomes of the status they write is judged here.
#ifndef LOCKSTEP_TESTS_SIM_OPERATOR_H_
#define LOCKSTEP_TESTS_SIM_OPERATOR_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "core/gang/coordinator/coordinator.h"
#include "core/gang/status/status_api.h"
#include "core/model/spec.h"
#include "core/status/status.h"
#include "operator/policy/facts/observation.h"
#include "operator/policy/facts/snapshot.h"
#include "tests/sim/network.h"

namespace lockstep::sim {

class Machine;
class World;

class Operator {
 public:
  explicit Operator(World& world) : world_(world) {}
  virtual ~Operator() = default;

  virtual void Begin() = 0;

  // ---- faults and the user ----
  virtual void Down(Duration duration) = 0;
  // Another leader takes over while this one goes on for so long.
  virtual void Pause(Duration duration) = 0;
  virtual void Suspend() = 0;
  virtual void Resume() = 0;
  virtual void SetL(Duration length) = 0;
  virtual void StaleService(Duration duration) = 0;
  virtual void Drain(Machine& machine, Duration grace) = 0;
  // `lives_on`: behind a partition, until that ends.
  virtual void DeleteNode(Machine& machine, Duration most, bool lives_on) = 0;
  // The first spare that there is comes to an end, or is stuck: its node dies, and nobody sees it.
  virtual void HitSpare(bool stuck) = 0;
  virtual void NoRoom(Duration duration) = 0;
  // The node of this machine is cordoned for so long.
  virtual void SickNode(Machine& machine, Duration duration) = 0;
  // Another namespace replaces as many machines as it may.
  virtual void Greed(Duration duration) = 0;
  // The job's queue takes its admission back, and has nothing for it for so long.
  virtual void Preempt(Duration duration) = 0;
  // What the API server holds now is all that it holds so much later.
  virtual void GoBack(Duration later, Duration most) = 0;

  // ---- what stands in the API server, or in run.json ----
  // Of the coordinator that is being made.
  virtual core::FailurePolicy policy_at_birth() const = 0;
  // Where who joins finds the coordinator now.
  virtual std::optional<Node> Endpoint() const = 0;
  virtual bool over() const = 0;
  // The highest that was recorded for a machine.
  uint32_t attempt(uint32_t index) const { return highest_.at(index); }
  // A status says, or said, that generations are made of these.
  bool Decided(const core::Members& members) const { return decided_.contains(members.ToString()); }
  bool went_back() const { return went_back_at_ != Time::min(); }
  // The last time that the API server did.
  Time went_back_at() const { return went_back_at_; }
  const std::optional<core::Verdict>& verdict() const { return verdict_; }
  Duration longest_l() const { return longest_l_; }

  // ---- what machines do ----
  // A container, or an agent, has ended, and all that it started.
  virtual void OnTerminated(const Machine& machine) = 0;
  // Whoever observes them is told that the node of this one cannot be reached.
  void OnNodeLost(const control::MachineAttempt& attempt) { nodes_lost_.insert(attempt); }
  void OnDesiredStateTaken(Node node, const core::DesiredState& desired);
  // What it has said.
  const core::Counters& told(Node node) const;

 protected:
  static constexpr Time kBoot = hours(1);  // of the operator's clock at the start
  static WallTime WallOf(Time now) { return WallTime(hours(24 * 365 * 50)) + now; }

  // The job's, as its shape wants it.
  core::Spec SpecOf() const;
  // Before a status takes the place of another.
  void Judge(const core::JobStatus& before, const core::JobStatus& after);
  // Of an attempt that is made.
  void JudgeMade(uint32_t machine, uint32_t attempt, const core::JobStatus& known,
                 const core::JobStatus& recorded);
  // A status that was recorded before takes the place of the later ones.
  void JudgeGoingBack(const core::JobStatus& restored);
  // GET /status. Nothing where nobody answers.
  std::optional<control::GangReport> Ask(const Machine* machine) const;
  // PUT /gang. Whether it was taken.
  bool Say(Machine& machine, const core::DesiredState& desired);

  World& world_;
  std::vector<uint32_t> highest_;  // attempt of each machine, ever
  std::optional<core::Verdict> verdict_;
  Time finished_ = kNever;
  Duration longest_l_{};

 private:
  // Of attempts that were lost for their silence, those that are judged here, and whose nodes were
  // never seen to be lost.
  uint32_t SilentOnHealthyNodes(const core::JobStatus& before, const core::JobStatus& after) const;
  void JudgeLedger(const core::JobStatus& before, const core::JobStatus& after);

  std::set<control::MachineAttempt> made_;
  std::set<control::MachineAttempt> nodes_lost_;
  std::set<std::string> decided_;
  std::map<Node, core::Counters> told_;
  bool taken_ = false;
  Time went_back_at_ = Time::min();
};

// As whoever watches it sees it.
control::MachineEnd EndOf(const Machine& machine);

}  // namespace lockstep::sim

#endif  // LOCKSTEP_TESTS_SIM_OPERATOR_H_
