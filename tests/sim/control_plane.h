// ControlPlane: the operator as it is. Two replicas, each with its own copy of the API server's
// objects, late in its own way; the leader runs control::Decide and carries decisions out with the
// executor's rules: the intent alone and by compare-and-swap, actions in parallel, the status last,
// and nothing is decided before its own writes have come back.
//
// That nothing is written once all is said is judged here, as the API server alone can see it.
#ifndef LOCKSTEP_TESTS_SIM_CONTROL_PLANE_H_
#define LOCKSTEP_TESTS_SIM_CONTROL_PLANE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/wall_time.h"
#include "operator/controller/jobs/rate_limiter.h"
#include "operator/policy/facts/decision.h"
#include "tests/sim/api_server.h"
#include "tests/sim/kubelets.h"
#include "tests/sim/operator.h"
#include "tests/sim/queue.h"

namespace lockstep::sim {

class ControlPlane : public Operator {
 public:
  explicit ControlPlane(World& world);

  void Begin() override;
  void Down(Duration duration) override;
  void Pause(Duration duration) override;
  void Suspend() override;
  void Resume() override;
  void SetL(Duration length) override;
  void StaleService(Duration duration) override;
  void Drain(Machine& machine, Duration grace) override { kubelets_.Drain(machine, grace); }
  void DeleteNode(Machine& machine, Duration most, bool lives_on) override {
    kubelets_.DeleteNode(machine, most, lives_on);
  }
  void HitSpare(bool stuck) override { kubelets_.HitSpare(stuck); }
  void NoRoom(Duration duration) override { kubelets_.NoRoom(duration); }
  void SickNode(Machine& machine, Duration duration) override {
    kubelets_.SickNode(machine, duration);
  }
  void Greed(Duration duration) override;
  void Preempt(Duration duration) override { queue_.Preempt(duration); }
  void GoBack(Duration later, Duration most) override;

  core::FailurePolicy policy_at_birth() const override { return kubelets_.policy_at_birth(); }
  std::optional<Node> Endpoint() const override;
  bool over() const override;
  void OnTerminated(const Machine&) override {}  // kubelets look for themselves

  using Operator::WallOf;

 private:
  // One process of the operator.
  struct Replica {
    uint32_t index = 0;
    uint64_t life = 0;  // answers to an earlier one are dropped
    bool leads = false;
    Objects cache;
    std::array<Time, kKinds> delivered{};  // when what was sent last arrives
    std::array<uint64_t, kKinds> parked{};
    Time parked_until = kNever;
    bool busy = false;
    int failures = 0;
    Time not_before{};
    Time wake = kNever;
    int crash_in = -1;  // writes until it dies

    control::RateLimiter replacements;
    Time replaced = Time::min();
    control::Notes notes;
    control::PolicyState memory;
    std::optional<control::GangReport> coordinator;
    std::optional<control::GangReport> member;
    std::optional<core::DesiredState> desired;
    bool desired_state_accepted = false;
  };
  struct Answer {
    bool ok = false;
    bool gone = false;  // not found
    Kind kind = Kind::kJob;
    uint64_t version = 0;
  };
  struct Run;

  // ---- the API server ----
  Answer WriteStatus(uint64_t version, const core::JobStatus& status);
  Answer Carry(const control::Action& action, const core::JobStatus& known);
  Answer CreatePod(const control::StartMachine& create, const core::JobStatus& known);
  Answer CreateSpare(const control::StartSpare& create);
  Answer Delete(const control::StopMachine& deletion);
  // A machine's current attempt is asked to leave, though the job goes on.
  void JudgeMove(const control::MachineObservation& pod);
  Answer WriteOf(const control::WriteSlice& write);
  Answer Wrote(Kind kind, const ApiServer::Change& change);
  // Of the Workload; nothing: it was refused.
  Answer Wrote(const std::optional<ApiServer::Change>& change);
  Answer Found(Kind kind) const;
  void ChangeSpec(const std::function<void(core::Spec&)>& change);

  // ---- the replicas ----
  void Deliver(Replica& replica, Kind kind, uint64_t version, const ApiServer::Change& change);
  void Lead(Replica& replica);
  void Crash(Replica& replica);
  Replica* Leader();
  void Work(Replica& replica);
  bool Waits(Replica& replica);
  int ReplacementsAllowed(Replica& replica);
  void CarryOut(Replica& replica, control::Decision decision);
  void Call(Replica& replica, std::function<Answer()> at_server,
            std::function<void(const Answer&)> on_answer);
  void Close(Replica& replica, const std::shared_ptr<Run>& run);
  void WakeAt(Replica& replica, Time at);
  // GET /status and PUT /gang.
  void Poll(Replica& replica, uint64_t life);
  bool Ask(Replica& replica, const std::string& pod);
  void Say(Replica& replica);

  ApiServer api_;
  Kubelets kubelets_;
  Queue queue_;
  std::array<Replica, 2> replicas_;
  Time stale_until_{};
  std::set<std::string> moved_;  // pods of one round that were asked to leave sick nodes, by UID
  Time moved_at_ = -hours(1);
  std::set<std::string> brought_back_;  // uids of pods whose end a restored etcd has forgotten
  Time greedy_until_{};
  std::vector<Node> endpoints_;
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_TESTS_SIM_CONTROL_PLANE_H_
