// status.lastFailure, of failures that the gang goes on from, or went on from.
#ifndef LOCKSTEP_OPERATOR_POLICY_LAST_FAILURE_H_
#define LOCKSTEP_OPERATOR_POLICY_LAST_FAILURE_H_

#include "core/failure/failure.h"
#include "core/failure/generation.h"
#include "operator/policy/reconcile_context.h"

namespace lockstep::control {

// What ended `generation`, with an event, if it is news; nothing for kNone.
void RecordFailure(ReconcileContext& context, const core::Failure& failure,
                   core::Generation generation);

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_POLICY_LAST_FAILURE_H_
