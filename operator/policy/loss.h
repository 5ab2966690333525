// Loss: a machine that is to have another attempt, and why; and the policies that find and judge
// losses. replacement.cc replaces and charges them.
#ifndef LOCKSTEP_OPERATOR_POLICY_LOSS_H_
#define LOCKSTEP_OPERATOR_POLICY_LOSS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "operator/policy/machines.h"
#include "operator/policy/reconcile_context.h"

namespace lockstep::control {

struct Loss {
  const Machine* machine = nullptr;
  EndKind kind = EndKind::kLost;
  std::string what;
  uint32_t needs_epoch = 0;  // of kOvertaken
  Payer payer = Payer::kMachine;
  std::string likeness{};           // equal for ends of the same sort; "" where nothing is judged
  bool elsewhere = false;           // its node is avoided from now on
  bool counted = false;             // its round of kJob is charged already
  const MachineEnd* end = nullptr;  // null: it is not over
};

// A loss whose machine is over or gone.
Loss LossByEnd(const ReconcileContext& context, const Machine& machine);

// alike.cc: a loss becomes the job's own doing, kJob, if machines were lost the same way on another
// node, or on one node several times in a row. Machines that are lost the same way at about the
// same time count as one round: only one of them is charged.
void JudgeAlike(ReconcileContext& context, std::vector<Loss>& losses);

// starting.cc: a machine that has a node and does not start there within startTimeout, though
// nothing is on its way: the image cannot be pulled, a Secret or a volume is missing. A pull that
// goes on is waited for.
std::optional<Loss> FindStuck(ReconcileContext& context, const Machine& machine);

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_POLICY_LOSS_H_
