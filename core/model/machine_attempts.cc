#include "core/model/machine_attempts.h"

#include <cassert>
#include <charconv>
#include <map>
#include <optional>
#include <utility>

namespace lockstep::core {
namespace {

std::optional<int> TakeMachine(std::string_view& text) {
  int machine = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), machine);
  if (error != std::errc() || text[0] == '-' || machine >= MachineAttempts::kMost) {
    return std::nullopt;
  }
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return machine;
}

// "0-2" or "3" off the front of `text`.
std::optional<std::pair<int, int>> TakeRange(std::string_view& text) {
  const std::optional<int> first = TakeMachine(text);
  if (!first) return std::nullopt;
  std::optional<int> last = first;
  if (text.starts_with('-')) {
    text.remove_prefix(1);
    last = TakeMachine(text);
  }
  if (!last || *last < *first) return std::nullopt;
  return std::pair(*first, *last);
}

std::string Range(int first, int last) {
  std::string text = std::to_string(first);
  if (last > first) text += "-" + std::to_string(last);
  return text;
}

}  // namespace

void MachineAttempts::Reset(int count, uint32_t attempt) {
  assert(count >= 0 && count <= kMost && attempt != 0);
  attempts_.assign(static_cast<size_t>(count), attempt);
}

void MachineAttempts::Set(int machine, uint32_t attempt) {
  assert(machine >= 0 && machine < kMost && attempt != 0);
  const auto index = static_cast<size_t>(machine);
  if (index >= attempts_.size()) attempts_.resize(index + 1);
  attempts_[index] = attempt;
}

void MachineAttempts::Erase(int machine) {
  if (machine < 0 || machine >= size()) return;
  attempts_[static_cast<size_t>(machine)] = 0;
  while (!attempts_.empty() && attempts_.back() == 0) attempts_.pop_back();
}

uint32_t MachineAttempts::Of(int machine) const {
  if (machine < 0 || machine >= size()) return 0;
  return attempts_[static_cast<size_t>(machine)];
}

std::vector<AttemptRange> MachineAttempts::Ranges() const {
  std::map<uint32_t, std::string> machines;
  for (int first = 0; first < size();) {
    const uint32_t attempt = Of(first);
    int last = first;
    while (Of(last + 1) == attempt && last + 1 < size()) ++last;
    if (attempt != 0) {
      std::string& text = machines[attempt];
      text += (text.empty() ? "" : ",") + Range(first, last);
    }
    first = last + 1;
  }
  std::vector<AttemptRange> ranges;
  ranges.reserve(machines.size());
  for (auto& [attempt, text] : machines) ranges.push_back({attempt, std::move(text)});
  return ranges;
}

Result<MachineAttempts> MachineAttempts::FromRanges(const std::vector<AttemptRange>& ranges) {
  MachineAttempts attempts;
  for (const AttemptRange& range : ranges) {
    if (range.attempt == 0) return Error::Invalid("attempt must not be 0");
    std::string_view rest = range.machines;
    while (true) {
      const auto machines = TakeRange(rest);
      if (!machines || (!rest.empty() && rest[0] != ',')) {
        return Error::Invalid("machines must be ranges below " + std::to_string(kMost) +
                              ", as in 0-2,4");
      }
      for (int machine = machines->first; machine <= machines->second; ++machine) {
        if (attempts.Of(machine) != 0) {
          return Error::Invalid("machine " + std::to_string(machine) + " appears twice");
        }
        attempts.Set(machine, range.attempt);
      }
      if (rest.empty()) break;
      rest.remove_prefix(1);
    }
  }
  return attempts;
}

}  // namespace lockstep::core
