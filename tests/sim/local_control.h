// LocalControl: `lockstep run` as it is: cli/run's LocalJob decides, and machines are agents of one
// computer. A machine's next attempt is started where the last one has ended; nothing between them
// and this operator is lost, but for agents that are stopped or will not answer.
#ifndef LOCKSTEP_TESTS_SIM_LOCAL_CONTROL_H_
#define LOCKSTEP_TESTS_SIM_LOCAL_CONTROL_H_

#include <cstdint>
#include <optional>
#include <utility>

#include "cli/run/local_job.h"
#include "tests/sim/operator.h"

namespace lockstep::sim {

class LocalControl : public Operator {
 public:
  explicit LocalControl(World& world) : Operator(world) {}

  void Begin() override;
  // Its process is stopped, and goes on later: nobody else takes over.
  void Down(Duration duration) override;
  void Pause(Duration duration) override { Down(duration); }
  // Ctrl-C: there is no way back.
  void Suspend() override;
  void Resume() override {}
  // A run's job does not change, nor is there a Service or a scheduler.
  void SetL(Duration) override {}
  void StaleService(Duration) override {}
  void HitSpare(bool) override {}
  void NoRoom(Duration) override {}
  void SickNode(Machine&, Duration) override {}
  void Greed(Duration) override {}
  void Preempt(Duration) override {}
  void GoBack(Duration, Duration) override {}
  // Nobody drains one: somebody else sends SIGTERM.
  void Drain(Machine& machine, Duration grace) override;
  void DeleteNode(Machine& machine, Duration most, bool lives_on) override;

  core::FailurePolicy policy_at_birth() const override { return job_->job().spec.failure_policy; }
  std::optional<Node> Endpoint() const override;
  bool over() const override { return job_->over(); }
  void OnTerminated(const Machine& machine) override;

 private:
  void Work();
  void CarryOut(const cli::LocalStep& step);
  void Start(uint32_t index);
  void WakeAt(Time at);
  // GET /status and PUT /gang.
  void Poll();
  bool Ask(const Machine* machine);
  void Tell();
  Machine* Newest(uint32_t index) const;

  std::optional<cli::LocalJob> job_;
  Time stopped_until_{};
  Time wake_ = kNever;
  std::pair<Node, uint64_t> heard_{};  // the last answer: of whom, and its version
  Time heard_at_{};
  std::optional<std::pair<Node, core::DesiredState>> taken_;  // by whom
  std::optional<core::DesiredState> saying_;                  // is on its way
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_TESTS_SIM_LOCAL_CONTROL_H_
