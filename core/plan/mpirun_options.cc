#include "core/plan/mpirun_options.h"

#include <algorithm>

#include "base/text/shell_name.h"

namespace lockstep::core {
namespace {

bool Holds(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    const size_t blank = std::min(names.find(' '), names.size());
    if (names.substr(0, blank) == name) return true;
    names.remove_prefix(std::min(blank + 1, names.size()));
  }
  return false;
}

// One rank, some ranks (0,2-4), all or none.
bool IsRanks(std::string_view word) {
  return word == "all" || word == "none" ||
         (!word.empty() && word.find_first_not_of("0123456789,-") == std::string_view::npos);
}

}  // namespace

const MpirunOption* FindMpirunOption(std::string_view name) {
  const auto found = std::ranges::find_if(
      kMpirunOptions, [&](const MpirunOption& option) { return Holds(option.names, name); });
  return found == kMpirunOptions.end() ? nullptr : &*found;
}

int WordsThatFollow(int values, std::string_view next) {
  if (values == kRanksMayFollow) return IsRanks(next) ? 1 : 0;
  if (values == kVariable) return AssignedName(next) > 0 ? 1 : 2;
  return values;
}

}  // namespace lockstep::core
