// Rules that a simulator can switch off, by name. In every shipped build each is the constant
// `true`; a build with LOCKSTEP_MUTANTS can switch one off, and must then find the harm that it
// prevents. A set of rules is an enum, and beside it a function NamesOf with a name for each:
//
//   enum class Rule : uint8_t { kLeaseExpires, kLowerLWaits };
//   constexpr auto NamesOf(Rule) {
//     return std::to_array<const char*>({"LeaseExpires", "LowerLWaits"});
//   }
//   if (Holds(Rule::kLeaseExpires) && now >= lease_end) ...
#ifndef LOCKSTEP_BASE_RULES_H_
#define LOCKSTEP_BASE_RULES_H_

#include <cstddef>
#include <cstdint>

namespace lockstep {

#ifdef LOCKSTEP_MUTANTS
// One bit a rule. Per thread, so that simulators of different mutants run beside each other.
template <typename Rule>
inline thread_local uint64_t rules_off = 0;

template <typename Rule>
bool Holds(Rule rule) {
  static_assert(NamesOf(Rule{}).size() <= 64);
  return (rules_off<Rule> >> static_cast<unsigned>(rule) & 1) == 0;
}

// Switches off those rules that `off(name)` picks, and all others on.
template <typename Rule, typename Off>
void SwitchRules(Off off) {
  constexpr auto kNames = NamesOf(Rule{});
  rules_off<Rule> = 0;
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (off(kNames[i])) rules_off<Rule> |= uint64_t{1} << i;
  }
}
#else
template <typename Rule>
constexpr bool Holds(Rule) {
  return true;
}
#endif

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_RULES_H_
