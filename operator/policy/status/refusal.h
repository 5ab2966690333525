// The reason of a job whose object the API server refused.
#ifndef LOCKSTEP_OPERATOR_POLICY_STATUS_REFUSAL_H_
#define LOCKSTEP_OPERATOR_POLICY_STATUS_REFUSAL_H_

#include <string>

#include "operator/policy/facts/reconcile_context.h"

namespace lockstep::control {

// A reason for status.reason, for users, with what to do.
struct Why {
  const char* word = "";  // CamelCase reason of an event; "": no event, or it exists already
  std::string text;
};

Why WhyRefused(const ReconcileContext& context, const Refusal& refusal);

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_POLICY_STATUS_REFUSAL_H_
