#include "core/terms/members.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "base/text/index_list.h"

namespace lockstep::core {

Members Members::All(uint32_t count) {
  Members members;
  members.machines_.resize(count);
  std::iota(members.machines_.begin(), members.machines_.end(), 0);
  return members;
}

Members Members::Of(std::vector<uint32_t> machines) {
  Members members;
  members.machines_ = std::move(machines);
  std::ranges::sort(members.machines_);
  const auto twice = std::ranges::unique(members.machines_);
  members.machines_.erase(twice.begin(), twice.end());
  return members;
}

Result<Members> Members::Parse(std::string_view text) {
  const Result<IndexList> list = ParseIndexList(text);
  if (!list.ok()) return list.error();
  if (!list->empty() && list->back() >= static_cast<int>(kMost)) {
    return Error::Invalid("\"" + std::string(text) + "\" names a machine above " +
                          std::to_string(kMost - 1));
  }
  Members members;
  members.machines_.assign(list->begin(), list->end());
  return members;
}

std::string Members::ToString() const {
  return FormatIndexList(IndexList(machines_.begin(), machines_.end()));
}

bool Members::Contains(uint32_t machine) const {
  return std::ranges::binary_search(machines_, machine);
}

uint32_t Members::PlaceOf(uint32_t machine) const {
  return static_cast<uint32_t>(std::ranges::lower_bound(machines_, machine) - machines_.begin());
}

Members Members::And(const Members& other) const {
  Members both;
  std::ranges::set_intersection(machines_, other.machines_, std::back_inserter(both.machines_));
  return both;
}

}  // namespace lockstep::core
