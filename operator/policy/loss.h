// Loss: a machine that needs another attempt, and why; and the policies that find and judge losses.
// replacement.cc replaces and charges them.
#ifndef LOCKSTEP_OPERATOR_POLICY_LOSS_H_
#define LOCKSTEP_OPERATOR_POLICY_LOSS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "operator/policy/facts/machines.h"
#include "operator/policy/facts/reconcile_context.h"

namespace lockstep::control {

struct Loss {
  const Machine* machine = nullptr;
  EndKind kind = EndKind::kLost;
  std::string what;
  uint32_t needs_epoch = 0;  // of kOvertaken
  Payer payer = Payer::kMachine;
  std::string likeness{};           // equal for ends of the same kind; "": not judged
  bool elsewhere = false;           // its node is avoided from now on
  bool counted = false;             // its round of kJob is already charged
  const MachineEnd* end = nullptr;  // null: the attempt is not over
};

// Whether the machine of the loss has ended or is gone.
Loss LossByEnd(const ReconcileContext& context, const Machine& machine);

// alike.cc: a loss counts as caused by the job (kJob) if machines were lost the same way on another
// node, or several times in a row on one node. Machines that are lost the same way at about the
// same time are one round; only one of them is charged.
void JudgeAlike(ReconcileContext& context, std::vector<Loss>& losses);

// starting.cc: a machine that does not start on its node within startTimeout, because its image
// cannot be pulled, or a Secret or volume is missing. A pull in progress is awaited.
std::optional<Loss> FindStuck(ReconcileContext& context, const Machine& machine);

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_POLICY_LOSS_H_
