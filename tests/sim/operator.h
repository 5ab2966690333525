// Operator: what a schedule does to the operator of the job, and what the rest of the world sees of
// it. The real one stands in control_plane.h, a quick stand-in in stand_in.h.
#ifndef LOCKSTEP_TESTS_SIM_OPERATOR_H_
#define LOCKSTEP_TESTS_SIM_OPERATOR_H_

#include <cstdint>
#include <optional>

#include "core/gang/coordinator.h"
#include "tests/sim/network.h"

namespace lockstep::sim {

class Machine;
class World;

class Operator {
 public:
  virtual ~Operator() = default;

  virtual void Begin() = 0;

  // ---- faults and the user ----
  virtual void Down(Duration duration) = 0;
  // Another leader takes over while this one goes on for so long.
  virtual void Pause(Duration duration) = 0;
  virtual void Suspend(bool delete_pods) = 0;
  virtual void Resume() = 0;
  virtual void SetL(Duration length) = 0;
  virtual void StaleService(Duration duration) = 0;
  virtual void DeleteNode(Machine& machine, Duration most) = 0;
  virtual void NoRoom(Duration duration) = 0;

  // ---- what stands in the API server ----
  // Of the coordinator that is being made.
  virtual core::FailurePolicy policy_at_birth() const = 0;
  // Where the coordinator's Service leads now.
  virtual std::optional<Node> Endpoint() const = 0;
  // The highest that was recorded for a machine.
  virtual uint32_t attempt(uint32_t index) const = 0;
  virtual const std::optional<core::Verdict>& verdict() const = 0;
  virtual bool over() const = 0;
  virtual Duration longest_l() const = 0;

  // ---- what it has said ----
  virtual const core::Counters& told(Node node) const = 0;
  virtual void OnDesiredStateTaken(Node node, const core::DesiredState& desired) = 0;
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_TESTS_SIM_OPERATOR_H_
