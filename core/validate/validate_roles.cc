// Roles of ranks: their names and numbers, whose end ends the job, and what can't be started again
// alone.
#include <algorithm>
#include <set>
#include <string>

#include "core/model/name_forms.h"
#include "core/model/roles.h"
#include "core/validate/validator.h"

namespace lockstep::core {
namespace {

void ValidateTensorFlowRole(Validator& validator, const std::string& path, const Role& role) {
  const bool known = role.name == kTensorFlowChief || role.name == kTensorFlowWorker ||
                     role.name == kTensorFlowServer || role.name == kTensorFlowEvaluator;
  if (!known) {
    validator.Error(path + ".name",
                    "must be chief, worker, ps or evaluator, the tasks that TensorFlow knows",
                    "the text \"" + role.name + "\"");
  }
  const bool holds_state = role.name == kTensorFlowChief || role.name == kTensorFlowServer;
  if (holds_state && role.restart == RoleRestart::kAlone) {
    validator.Error(path + ".restart",
                    "must be Gang for chief and ps: they hold the training's variables and steps, "
                    "which are lost with them");
  }
  if (role.name == kTensorFlowChief && role.count > 1) {
    validator.Error(path + ".count", "must be 1: a cluster of TensorFlow has one chief",
                    std::to_string(role.count));
  }
}

void ValidateNames(Validator& validator) {
  const Spec& spec = validator.job.spec;
  std::set<std::string_view> seen;
  for (size_t i = 0; i < spec.roles.size(); ++i) {
    const std::string path = "spec.roles[" + std::to_string(i) + "]";
    const Role& role = spec.roles[i];
    if (!IsDnsLabel(role.name)) {
      validator.Error(path + ".name",
                      "must be at most 63 lower-case letters, digits and dashes (a DNS-1123 label)",
                      "the text \"" + role.name + "\"");
    } else if (spec.framework == Framework::kTensorFlow) {
      ValidateTensorFlowRole(validator, path, role);
    }
    if (!seen.insert(role.name).second) {
      validator.Error(path, "must have each name once: " + role.name + " appears twice");
    }
  }
}

// Whether each rank is a separate process of a program that distinguishes ranks.
void ValidateProgram(Validator& validator) {
  const Spec& spec = validator.job.spec;
  if (!RowOf(spec.framework).roles) {
    validator.Error("spec.roles", std::string("must be empty with framework: ") +
                                      ToString(spec.framework) +
                                      ", because all of its processes have the same role");
  }
  if (spec.launch == Launch::kPerMachine) {
    validator.Error(
        "spec.roles",
        "must be empty with launch: PerMachine, because your launcher numbers the ranks");
  }
  if (spec.trainer) {
    validator.Error(
        "spec.roles",
        "must be empty beside spec.trainer, because all of its ranks have the same role");
  }
  const bool alone =
      std::ranges::find(spec.roles, RoleRestart::kAlone, &Role::restart) != spec.roles.end();
  if (alone && spec.checkpoint.memory.size) {
    validator.Error("spec.checkpoint.memory.size",
                    "must be absent if a role has restart: Alone, because a checkpoint in memory "
                    "is one step of all ranks");
  }
}

void ValidateSuccess(Validator& validator) {
  const Spec& spec = validator.job.spec;
  if (spec.success_policy != SuccessPolicy::kRole) {
    if (!spec.success_role.empty()) {
      validator.Error("spec.successRole", "needs successPolicy: Role");
    }
  } else if (FindRole(spec, spec.success_role) == nullptr) {
    validator.Error("spec.successRole",
                    "must name one of spec.roles, whose exit 0 ends the job (successPolicy: Role)",
                    "the text \"" + spec.success_role + "\"");
  }
}

}  // namespace

void ValidateRoles(Validator& validator) {
  const Spec& spec = validator.job.spec;
  ValidateSuccess(validator);
  if (spec.roles.empty()) return;
  ValidateNames(validator);
  ValidateProgram(validator);
  int64_t ranks = 0;
  for (const Role& role : spec.roles) ranks += role.count;
  if (ranks != WorldSize(spec)) {
    validator.Error("spec.roles", "must have as many ranks as the job, which has " +
                                      std::to_string(WorldSize(spec)) +
                                      " (numMachines x processesPerMachine): the sum of count is " +
                                      std::to_string(ranks));
  }
}

}  // namespace lockstep::core
