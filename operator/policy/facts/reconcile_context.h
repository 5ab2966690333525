// ReconcileContext: a Decision in the making, which the policies fill one after the other.
#ifndef LOCKSTEP_OPERATOR_POLICY_FACTS_RECONCILE_CONTEXT_H_
#define LOCKSTEP_OPERATOR_POLICY_FACTS_RECONCILE_CONTEXT_H_

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "operator/policy/facts/decision.h"
#include "operator/policy/facts/machines.h"
#include "operator/policy/facts/snapshot.h"

namespace lockstep::control {

struct ReconcileContext {
  ReconcileContext(const Snapshot& seen, Now at)
      : snapshot(seen), now(at), machines(Machines(seen)), next(seen.status) {
    decision.memory = seen.memory;
  }

  const Snapshot& snapshot;
  const Now now;
  const std::vector<Machine> machines;
  core::JobStatus next;  // the status as it is to become
  Decision decision;
  std::string note;  // of a policy, to stand in status.reason
  std::string why;   // the word for status.reason, in CamelCase; empty: the state's name

  const core::Spec& spec() const { return snapshot.job->spec; }
  const PolicyState& memory() const { return decision.memory; }
  // One policy's part, for its own file: StateOf<&PolicyState::stall>().
  template <auto kPart>
  auto& StateOf() {
    return decision.memory.*kPart;
  }
  // Null if the refused object exists after all, or is no longer wanted.
  const Refusal* refusal() const {
    const std::optional<Refusal>& last = snapshot.notes.refusal;
    return last && !decision.nothing_missing ? &*last : nullptr;
  }

  void AddAction(Action action) { decision.actions.push_back(std::move(action)); }
  void WakeAt(Time boot) { decision.wake = std::min(decision.wake, boot); }
  // Whether it is that late; if not, the job is decided again then.
  bool IsDue(Time at) {
    if (now.boot < at) WakeAt(at);
    return now.boot >= at;
  }
  bool IsDue(WallTime at) { return IsDue(now.Boot(at)); }
  void AddEvent(bool warning, std::string reason, std::string text) {
    decision.events.push_back({warning, std::move(reason), std::move(text)});
  }
  // `next` is to be written before anything else happens.
  void WriteFirst();
  // `next` is to be written last.
  void WriteLast() {
    StateOf<&PolicyState::record>().written = now.boot;
    decision.status = next;
  }
};

// Puts a condition of the job into `next`.
void PutCondition(ReconcileContext& context, const char* type, core::Condition::Value value,
                  const char* reason, std::string message);
// One that does not hold is written only where it once did.
void SetCondition(ReconcileContext& context, const char* type, bool holds, const char* reason,
                  std::string message);

// The value of `status.lastFailure` for `failure`, which ended `generation`.
core::LastFailure FailureRecord(const ReconcileContext& context, core::Failure failure,
                                core::Generation generation);

// The last answer of the present coordinator; null: there is none.
const core::GangStatus* Coordinator(const ReconcileContext& context);
bool IsPhase(const core::GangStatus& status, core::CoordinatorPhase phase);

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_POLICY_FACTS_RECONCILE_CONTEXT_H_
