// Signals by name, as rules in files name them.
#ifndef LOCKSTEP_CORE_FAILURE_SIGNALS_H_
#define LOCKSTEP_CORE_FAILURE_SIGNALS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::core {

// "SIGBUS" for 7; "SIG64" for a signal without a name.
std::string SignalName(int signal);
// "SIGBUS"; "BUS" and "7" are refused.
std::optional<int> ParseSignal(std::string_view name);
std::vector<std::string_view> SignalNameList();

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_FAILURE_SIGNALS_H_
