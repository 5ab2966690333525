// status.lastFailure, for failures that the gang survives or survived.
#ifndef LOCKSTEP_OPERATOR_POLICY_STATUS_LAST_FAILURE_H_
#define LOCKSTEP_OPERATOR_POLICY_STATUS_LAST_FAILURE_H_

#include <string_view>

#include "core/failure/failure.h"
#include "core/terms/generation.h"
#include "operator/policy/facts/reconcile_context.h"

namespace lockstep::control {

// The event of a rank that is started again while its generation runs on.
inline constexpr std::string_view kRankRestarted = "RankRestarted";

// Records the failure that ended `generation`, or with `alone` one rank of it. A new failure gets
// an event; kNone is ignored.
void RecordFailure(ReconcileContext& context, const core::Failure& failure,
                   core::Generation generation, bool alone = false);

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_POLICY_STATUS_LAST_FAILURE_H_
