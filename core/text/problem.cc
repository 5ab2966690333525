#include "core/text/problem.h"

#include <algorithm>
#include <cstddef>
#include <tuple>

#include "base/text/ascii.h"
#include "core/text/limited_text.h"

namespace lockstep::core {
namespace {

// Optimal string alignment: insertions, deletions, substitutions and swaps of neighbours, one each.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> two_above(b.size() + 1);
  std::vector<size_t> above(b.size() + 1);
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], two_above[j - 2] + 1);
      }
    }
    std::swap(two_above, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

}  // namespace

void AddProblems(std::vector<Problem> of_rules, std::vector<Problem>* problems) {
  const size_t read = problems->size();
  for (Problem& problem : of_rules) {
    const auto end = problems->begin() + static_cast<std::ptrdiff_t>(read);
    const bool told = std::any_of(problems->begin(), end, [&](const Problem& other) {
      return other.severity == Severity::kError && !other.path.empty() &&
             other.path == problem.path;
    });
    if (!told) problems->push_back(std::move(problem));
  }
}

bool HasErrors(const std::vector<Problem>& problems) {
  return std::any_of(problems.begin(), problems.end(),
                     [](const Problem& p) { return p.severity == Severity::kError; });
}

std::string Format(const Problem& problem, std::string_view file_name) {
  std::string line(file_name);
  if (problem.line > 0) {
    line += ":" + std::to_string(problem.line) + ":" + std::to_string(problem.column);
  }
  line += problem.severity == Severity::kError ? ": error: " : ": warning: ";
  if (!problem.path.empty()) line += problem.path + ": ";
  line += problem.message;
  if (!problem.found.empty()) line += " (found " + problem.found + ")";
  return OneLine(line);
}

std::string Format(const std::vector<Problem>& problems, std::string_view file_name) {
  std::vector<const Problem*> sorted;
  sorted.reserve(problems.size());
  for (const Problem& problem : problems) sorted.push_back(&problem);
  // All of them point into `problems`, so the addresses give the original order.
  std::sort(sorted.begin(), sorted.end(), [](const Problem* a, const Problem* b) {
    return std::tie(a->line, a->column, a) < std::tie(b->line, b->column, b);
  });
  std::string text;
  for (const Problem* problem : sorted) text += Format(*problem, file_name) + "\n";
  return text;
}

std::string_view NearestName(std::string_view name, const std::vector<std::string_view>& known) {
  constexpr size_t kLongestName = 64;  // computing the distance takes length x length steps
  if (name.empty() || name.size() > kLongestName) return {};
  const std::string lower = ToLower(name);
  std::string_view nearest;
  size_t best = std::max<size_t>(1, name.size() / 3) + 1;
  for (const std::string_view candidate : known) {
    const size_t distance = EditDistance(lower, ToLower(candidate));
    if (distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace lockstep::core
