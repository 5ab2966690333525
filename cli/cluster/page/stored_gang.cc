#include "cli/cluster/page/stored_gang.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/text/json.h"

namespace lockstep::cli {
namespace {

constexpr const char* kNotListed = "NotListed";

bool InRange(int32_t index, int machines) { return index >= 0 && index < machines; }

// The state of machines that the list leaves out.
const char* OthersState(const core::JobStatus& status) {
  std::map<core::MachineState, int32_t> left = status.machines.by_state;
  for (const core::MachineStatus& machine : status.machine_statuses) --left[machine.state];
  std::erase_if(left, [](const auto& each) { return each.second <= 0; });
  return left.size() == 1 ? core::ToString(left.begin()->first) : kNotListed;
}

}  // namespace

WallTime NewestIn(const core::JobStatus& status) {
  WallTime newest{};
  const auto see = [&](const std::optional<WallTime>& at) {
    if (at) newest = std::max(newest, *at);
  };
  const core::Timings& timings = status.timings;
  for (const auto& at : {timings.created, timings.scheduled, timings.started, timings.first_step,
                         timings.finished}) {
    see(at);
  }
  for (const core::RestartRecord& each : status.history) {
    for (const auto& at : {each.detected, each.respawned, each.first_step}) see(at);
  }
  if (status.progress) see(status.progress->last_updated);
  return newest;
}

std::vector<GenerationEntry> StoredGenerations(const core::JobStatus& status,
                                               const DocumentClock& clock) {
  const auto at = [&](const std::optional<WallTime>& time) {
    return time ? std::optional(clock.At(*time)) : std::nullopt;
  };
  std::vector<GenerationEntry> generations;
  for (const core::RestartRecord& record : status.history) {
    GenerationEntry& entry = generations.emplace_back();
    entry.generation = record.generation;
    entry.died = entry.ended = at(record.detected);
    entry.code = record.code;
    entry.failure.machine = record.machine;
    entry.failure.cause = record.cause;
    const std::optional<core::LastFailure>& last = status.last_failure;
    if (last && last->generation == record.generation) {
      entry.failure = last->failure;
    } else {
      entry.failure.message = core::ToString(record.cause);
      if (record.machine >= 0) {
        entry.failure.message += " on machine " + std::to_string(record.machine);
      }
    }
    if (record.cause == core::Cause::kNone || record.cause == core::Cause::kStopRequested) {
      entry.failure = {};
      entry.died.reset();
      entry.stop_sent = entry.ended;
    }
  }
  const bool goes_on =
      status.gang_generation.exists() &&
      (generations.empty() || generations.back().generation < status.gang_generation);
  if (goes_on) generations.emplace_back().generation = status.gang_generation;
  // History has the last ten: what is before them is known if nothing is.
  const bool whole = generations.size() >= static_cast<size_t>(status.counters.generations);
  for (size_t i = 0; i < generations.size(); ++i) {
    GenerationEntry& entry = generations[i];
    const bool first = i == 0;
    if (first && !whole) continue;
    entry.spawned = at(first ? status.timings.started : status.history[i - 1].respawned);
    entry.announced = entry.spawned;
    entry.first_step = at(first ? status.timings.first_step : status.history[i - 1].first_step);
  }
  if (!goes_on) return generations;
  GenerationEntry& last = generations.back();
  if (status.progress) last.last_step = status.progress->step;
  if (!status.verdict) return generations;
  last.ended = at(status.timings.finished);
  if (status.state != core::JobState::kFailed) return generations;
  last.died = last.ended;
  if (status.last_failure) last.failure = status.last_failure->failure;
  if (last.failure.cause == core::Cause::kNone) last.failure.cause = status.verdict->cause;
  return generations;
}

std::vector<GenerationEntry> Merge(std::vector<GenerationEntry> stored,
                                   const std::vector<GenerationEntry>& told) {
  for (const GenerationEntry& entry : told) {
    const auto place =
        std::ranges::lower_bound(stored, entry.generation, {}, &GenerationEntry::generation);
    if (place == stored.end() || place->generation != entry.generation) {
      stored.insert(place, entry);
      continue;
    }
    const GenerationEntry known = std::exchange(*place, entry);
    if (place->ended || !known.ended) continue;
    // Its machine 0 ended before it could say so.
    place->ended = known.ended;
    place->died = known.died;
    place->failure = known.failure;
  }
  return stored;
}

std::string StoredMachines(const core::JobStatus& status, int machines) {
  const auto count = static_cast<size_t>(machines);
  std::vector<std::string> states(count, OthersState(status));
  std::vector<std::string> bindings(count);
  std::vector<std::string> notes(count);
  std::vector<uint32_t> attempts(count);
  for (int i = 0; i < machines; ++i) attempts[static_cast<size_t>(i)] = status.attempts.Of(i);
  for (const core::MachineStatus& machine : status.machine_statuses) {
    if (!InRange(machine.index, machines)) continue;
    const auto place = static_cast<size_t>(machine.index);
    states[place] = core::ToString(machine.state);
    bindings[place] = machine.binding.empty() ? "Unknown" : machine.binding;
    if (machine.replacements > 0) {
      notes[place] = "replaced " + std::to_string(machine.replacements) +
                     (machine.replacements == 1 ? " time" : " times");
    }
  }
  return DumpJson(OrderedJson{
      {"state", states}, {"attempt", attempts}, {"binding", bindings}, {"note", notes}});
}

std::vector<std::string> StoredNodes(const core::JobStatus& status, int machines) {
  std::vector<std::string> nodes(static_cast<size_t>(machines));
  for (const core::MachineStatus& machine : status.machine_statuses) {
    if (InRange(machine.index, machines)) nodes[static_cast<size_t>(machine.index)] = machine.node;
  }
  return nodes;
}

}  // namespace lockstep::cli
