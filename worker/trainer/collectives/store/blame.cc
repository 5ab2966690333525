#include "worker/trainer/collectives/store/blame.h"

#include <algorithm>

namespace lockstep::collectives {
namespace {

constexpr size_t kMostNames = 8;

// Ranks for which `is` holds.
template <typename Predicate>
std::vector<int> Those(const std::vector<RankProgress>& ranks, Predicate is) {
  std::vector<int> out;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (is(ranks[rank])) out.push_back(static_cast<int>(rank));
  }
  return out;
}

std::string Seconds(Duration duration) {
  const auto tenths = duration_cast<milliseconds>(duration).count() / 100;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

}  // namespace

Failure Blame(const std::vector<RankProgress>& ranks, const LateOperation& late) {
  const std::string waits = "rank " + std::to_string(late.rank) + " waits for " + late.what + ": ";
  const auto silent = Those(ranks, [](const auto& rank) { return rank.silence > kSilence; });
  if (!silent.empty()) {
    const Duration longest = ranks[static_cast<size_t>(silent.front())].silence;
    return {Error::Timeout(waits + NameRanks(silent) + " stopped answering " + Seconds(longest) +
                           " ago (stopped, or its machine hangs)"),
            silent.front()};
  }
  if (late.peer >= 0) {
    return {Error::Timeout(waits + NameRanks({late.peer}) + " has not done its part"), late.peer};
  }
  const auto least = std::min_element(
      ranks.begin(), ranks.end(),
      [](const RankProgress& a, const RankProgress& b) { return a.issued < b.issued; });
  const auto behind =
      Those(ranks, [&](const RankProgress& rank) { return rank.issued == least->issued; });
  if (behind.size() == ranks.size()) {
    return {Error::Timeout(waits + "all ranks issued it and none finished; check the network"), -1};
  }
  return {Error::Timeout(waits + NameRanks(behind) + " issued only " +
                         std::to_string(least->issued) + " operations and is busy elsewhere"),
          behind.front()};
}

std::string NameRanks(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  const size_t named = ranks.size() > kMostNames ? kMostNames - 1 : ranks.size();
  for (size_t i = 0; i < named; ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  if (named < ranks.size()) text += " and " + std::to_string(ranks.size() - named) + " others";
  return text;
}

}  // namespace lockstep::collectives
