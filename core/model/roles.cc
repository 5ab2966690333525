#include "core/model/roles.h"

#include <algorithm>

#include "core/model/launch.h"

namespace lockstep::core {
namespace {

template <typename Condition>
std::vector<uint32_t> RanksOf(const Spec& spec, Condition wanted) {
  std::vector<uint32_t> ranks;
  uint32_t rank = 0;
  for (const Role& role : spec.roles) {
    for (int32_t i = 0; i < role.count; ++i, ++rank) {
      if (wanted(role)) ranks.push_back(rank);
    }
  }
  return ranks;
}

}  // namespace

std::optional<RoleRank> RoleOf(const Spec& spec, int64_t rank) {
  for (const Role& role : spec.roles) {
    if (rank < role.count) return RoleRank{&role, rank};
    rank -= role.count;
  }
  return std::nullopt;
}

const Role* FindRole(const Spec& spec, const std::string& name) {
  const auto found = std::ranges::find(spec.roles, name, &Role::name);
  return found == spec.roles.end() ? nullptr : &*found;
}

std::vector<uint32_t> DecidingRanks(const Spec& spec) {
  if (spec.success_policy == SuccessPolicy::kRole) {
    return RanksOf(spec, [&](const Role& role) { return role.name == spec.success_role; });
  }
  std::vector<uint32_t> ranks;
  if (spec.success_policy == SuccessPolicy::kMachine0 || StartsFromMachine0(spec)) {
    for (int rank = 0; rank < ProcessesStarted(spec); ++rank) {
      ranks.push_back(static_cast<uint32_t>(rank));
    }
  }
  return ranks;
}

std::vector<NamedRanks> RanksByRole(const Spec& spec) {
  std::vector<NamedRanks> roles;
  uint32_t first = 0;
  for (const Role& role : spec.roles) {
    const auto count = static_cast<uint32_t>(role.count);
    roles.push_back({role.name, first, count});
    first += count;
  }
  return roles;
}

std::vector<uint32_t> AloneRanks(const Spec& spec) {
  return RanksOf(spec, [](const Role& role) { return role.restart == RoleRestart::kAlone; });
}

}  // namespace lockstep::core
