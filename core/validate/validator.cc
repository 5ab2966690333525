#include "core/validate/validator.h"

#include <algorithm>
#include <tuple>

#include "base/text/duration.h"

namespace lockstep::core {

void Validator::Error(std::string path, std::string message, std::string found) {
  Add(Severity::kError, std::move(path), std::move(message), std::move(found));
}

void Validator::Warn(std::string path, std::string message) {
  Add(Severity::kWarning, std::move(path), std::move(message), {});
}

void Validator::Range(const std::string& path, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return;
  Error(path, "must lie between " + std::to_string(low) + " and " + std::to_string(high),
        std::to_string(value));
}

void Validator::Range(const std::string& path, Duration value, Duration low, Duration high) {
  if (value >= low && value <= high) return;
  Error(path, "must lie between " + FormatDuration(low) + " and " + FormatDuration(high),
        FormatDuration(value));
}

std::vector<Problem> Validator::TakeProblems() {
  // Problems of a job made in code have no place and keep the order of the rules.
  std::vector<size_t> order(problems_.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::tie(problems_[a].line, problems_[a].column, a) <
           std::tie(problems_[b].line, problems_[b].column, b);
  });
  std::vector<Problem> sorted;
  sorted.reserve(order.size());
  for (const size_t i : order) sorted.push_back(std::move(problems_[i]));
  return sorted;
}

void Validator::Add(Severity severity, std::string path, std::string message, std::string found) {
  const Position position = job.source.Find(path);
  problems_.push_back({.path = std::move(path),
                       .line = position.line,
                       .column = position.column,
                       .found = std::move(found),
                       .message = std::move(message),
                       .severity = severity});
}

}  // namespace lockstep::core
