#include "core/terms/process_names.h"

namespace lockstep::core {
namespace {

// " (worker 1)", " (chief)" where it is the only one, or nothing.
std::string RoleNote(const std::vector<NamedRanks>& roles, int rank) {
  for (const NamedRanks& role : roles) {
    const int64_t index = int64_t{rank} - role.first;
    if (index < 0 || index >= role.count) continue;
    return " (" + role.name + (role.count > 1 ? " " + std::to_string(index) : "") + ")";
  }
  return "";
}

}  // namespace

std::string ProcessNames::Of(const Failure& death) const {
  const std::string on = " on machine " + std::to_string(death.machine);
  switch (kind) {
    case ProcessKind::kRank:
      if (death.rank < 0) return "the PMIx server" + on;
      return "rank " + std::to_string(death.rank) + RoleNote(roles, death.rank) + on;
    case ProcessKind::kMachine:
      return "the process" + on;
    case ProcessKind::kLauncher:
      return (death.machine == 0 ? "the launcher" : "the launcher's daemon") + on;
  }
}

}  // namespace lockstep::core
