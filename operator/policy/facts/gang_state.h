// What policies of machines and of Kubernetes both ask of a gang as a whole.
#ifndef LOCKSTEP_OPERATOR_POLICY_FACTS_GANG_STATE_H_
#define LOCKSTEP_OPERATOR_POLICY_FACTS_GANG_STATE_H_

#include <cstdint>

#include "core/terms/members.h"
#include "operator/policy/facts/reconcile_context.h"

namespace lockstep::control {

bool IsFinished(const core::JobStatus& status);

// The machines that take part, if spec.elastic allows to leave some out.
bool TakesPart(const ReconcileContext& context, const Machine& machine);
bool IsReady(const Machine& machine);
// Whether all machines that take part are ready, as status counts them.
bool PodsAreReady(const ReconcileContext& context);

// The longest time from the stop request until all ranks are stopped.
Duration StopPatience(const ReconcileContext& context);
// Whether no process of the machine can be alive: it has ended, or its node is silent and its
// deadline and lease passed long ago.
bool IsGone(ReconcileContext& context, const MachineObservation& seen);
// Whether nothing of the job runs or will run, so that other jobs may get its resources.
bool HasLeft(ReconcileContext& context);

// Whether the last create was refused and the next try is not due yet.
bool WaitsAfterRefusal(ReconcileContext& context);

// Notes that the machine's next attempt begins. `was_asked`: the last attempt was asked to leave.
void NoteSuccessor(ReconcileContext& context, uint32_t machine, bool was_asked);
// Intends a new epoch with attempts for these machines, together with the other changes in `next`.
// Earlier pods of these machines are fenced.
void BeginAttempts(ReconcileContext& context, const core::Members& machines);

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_POLICY_FACTS_GANG_STATE_H_
