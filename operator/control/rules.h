// Rules of the operator that the simulator can switch off, by name, as core/gang/rules.h has the
// gang's: the constant `true` in every shipped build; the simulator switches one off, and must find
// the harm.
#ifndef LOCKSTEP_OPERATOR_CONTROL_RULES_H_
#define LOCKSTEP_OPERATOR_CONTROL_RULES_H_

#include <cstdint>

namespace lockstep::control {

enum class Rule : uint8_t {
  kSilenceIsCounted,  // that a member is not connected to machine 0 is no evidence
  kVerdictEndsAll,    // nothing is decided after it
  kCountersMerge,     // what a new coordinator has not heard of yet is not lost
};
inline constexpr int kRuleCount = 3;

// "SilenceIsCounted", ...
const char* ToString(Rule rule);

#ifdef LOCKSTEP_MUTANTS
// Per thread, so that simulators of different mutants run beside each other.
bool Holds(Rule rule);
void SwitchOff(Rule rule);
void SwitchAllOn();
#else
constexpr bool Holds(Rule) { return true; }
#endif

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_CONTROL_RULES_H_
