// The roles of a job's ranks (spec.roles): ranks are given to them in the order of the list.
#ifndef LOCKSTEP_CORE_MODEL_ROLES_H_
#define LOCKSTEP_CORE_MODEL_ROLES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/spec.h"
#include "core/terms/process_names.h"

namespace lockstep::core {

// Those of TF_CONFIG; the chief runs the program where there is one, else worker 0.
inline constexpr std::string_view kTensorFlowChief = "chief";
inline constexpr std::string_view kTensorFlowWorker = "worker";
inline constexpr std::string_view kTensorFlowServer = "ps";
inline constexpr std::string_view kTensorFlowEvaluator = "evaluator";

// A rank's place in its role.
struct RoleRank {
  const Role* role = nullptr;  // in the spec
  int64_t index = 0;           // of role->count
};

// nullopt: the job has no roles, or fewer ranks in them.
std::optional<RoleRank> RoleOf(const Spec& spec, int64_t rank);

// Null: no role has that name.
const Role* FindRole(const Spec& spec, const std::string& name);

// The ranks whose exit 0 decides the job's success, by spec.successPolicy; empty: all of them. With
// a launcher that starts the ranks of other machines: only the launcher.
std::vector<uint32_t> DecidingRanks(const Spec& spec);

std::vector<NamedRanks> RanksByRole(const Spec& spec);

// The ranks that are restarted alone.
std::vector<uint32_t> AloneRanks(const Spec& spec);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_MODEL_ROLES_H_
