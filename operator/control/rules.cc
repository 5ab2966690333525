#include "operator/control/rules.h"

#include <array>
#include <cstddef>

namespace lockstep::control {

const char* ToString(Rule rule) {
  static constexpr std::array<const char*, kRuleCount> kNames = {"SilenceIsCounted",
                                                                 "VerdictEndsAll", "CountersMerge"};
  return kNames.at(static_cast<size_t>(rule));
}

#ifdef LOCKSTEP_MUTANTS
namespace {
thread_local uint32_t switched_off = 0;
}  // namespace

bool Holds(Rule rule) { return (switched_off & (1U << static_cast<uint32_t>(rule))) == 0; }
void SwitchOff(Rule rule) { switched_off |= 1U << static_cast<uint32_t>(rule); }
void SwitchAllOn() { switched_off = 0; }
#endif

}  // namespace lockstep::control
