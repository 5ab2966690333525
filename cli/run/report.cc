#include "cli/run/report.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>
#include <ranges>

namespace lockstep::cli {
namespace {

using Json = nlohmann::ordered_json;

Json Seconds(const std::optional<Duration>& duration) {
  if (!duration) return nullptr;
  return std::chrono::duration<double>(*duration).count();
}

// RFC 3339 in UTC with milliseconds.
std::string WallText(std::chrono::system_clock::time_point at) {
  auto ms = std::chrono::floor<milliseconds>(at.time_since_epoch()).count();
  std::time_t whole = static_cast<std::time_t>(ms / 1000);
  std::tm parts{};
  gmtime_r(&whole, &parts);
  std::array<char, 80> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ",
                parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min,
                parts.tm_sec, static_cast<int>(ms % 1000));
  return text.data();
}

class Writer {
 public:
  explicit Writer(const Report& report) : report_(report) {}

  Json Write() const {
    Json json = {
        {"job", report_.job},
        {"jobUID", report_.job_uid},
        {"numMachines", report_.num_machines},
        {"processesPerMachine", report_.processes_per_machine},
        {"epoch", report_.epoch},
        {"state", core::ToString(report_.outcome.state)},
        {"reason", report_.outcome.reason},
        {"exitCode", report_.outcome.exit_code},
        {"started", When(report_.started)},
        {"finished", When(report_.finished)},
        {"seconds", Seconds(report_.finished - report_.started)},
        {"startSeconds", nullptr},
        {"generations", Json::array()},
        {"restarts", Restarts()},
        {"lastFailure", LastFailure()},
        {"agents", Json::array()},
    };
    const auto& generations = report_.history.generations();
    if (!generations.empty() && generations.front().spawned) {
      json["startSeconds"] = Seconds(*generations.front().spawned - report_.started);
    }
    for (size_t i = 0; i < generations.size(); ++i) json["generations"].push_back(Generation(i));
    for (const MachineEnd& end : report_.ends) json["agents"].push_back(End(end));
    return json;
  }

 private:
  Json When(const std::optional<Time>& at) const {
    if (!at) return nullptr;
    auto since = duration_cast<std::chrono::system_clock::duration>(*at - report_.started);
    return WallText(report_.started_wall + since);
  }

  static Json Failure(const core::Failure& failure) {
    if (failure.cause == core::Cause::kNone) return nullptr;
    Json json = {{"cause", ToString(failure.cause)}, {"message", failure.message}};
    if (failure.machine >= 0) json["machine"] = failure.machine;
    if (failure.rank >= 0) json["rank"] = failure.rank;
    if (failure.exit_code >= 0) json["exitCode"] = failure.exit_code;
    if (failure.signal > 0) json["signal"] = failure.signal;
    if (!failure.stderr_tail.empty()) json["stderr"] = failure.stderr_tail;
    return json;
  }

  Json Generation(size_t index) const {
    const GenerationEntry& entry = report_.history.generations()[index];
    Recovery recovery = report_.history.RecoveryOf(index);
    Json json = {{"generation", entry.generation.ToString()},
                 {"announced", When(entry.announced)},
                 {"start", When(entry.spawned)},
                 {"firstStep", When(entry.first_step)},
                 {"end", When(entry.ended)},
                 {"stopReason", entry.stop_reason ? ToString(*entry.stop_reason) : ""},
                 {"resume", entry.resume},
                 {"cause", Failure(entry.failure)}};
    json["respawn"] = nullptr;
    if (entry.failure.cause != core::Cause::kNone) {
      json["respawn"] = {
          {"seconds", Seconds(recovery.respawn)}, {"detect", Seconds(recovery.detect)},
          {"stop", Seconds(recovery.stop)},       {"wait", Seconds(recovery.wait)},
          {"spawn", Seconds(recovery.spawn)},     {"firstStep", Seconds(recovery.first_step)}};
    }
    return json;
  }

  Json Restarts() const {
    Json by_cause = Json::object();
    int total = 0;
    for (const auto& [cause, count] : RestartsByCause(report_.history)) {
      by_cause[ToString(cause)] = count;
      total += count;
    }
    return {{"total", total},
            {"byCause", by_cause},
            {"processFailures", report_.counters.process_failures},
            {"machineReplacements", report_.counters.replacements}};
  }

  Json LastFailure() const {
    if (report_.outcome.failure.cause != core::Cause::kNone) {
      return Failure(report_.outcome.failure);
    }
    const auto& generations = report_.history.generations();
    for (const GenerationEntry& entry : std::ranges::reverse_view(generations)) {
      if (entry.failure.cause != core::Cause::kNone) return Failure(entry.failure);
    }
    return nullptr;
  }

  Json End(const MachineEnd& end) const {
    Json json = {{"machine", end.machine}, {"attempt", end.attempt}, {"ended", When(end.at)}};
    if (end.signal > 0) {
      json["signal"] = end.signal;
    } else {
      json["exitCode"] = end.exit_code;
    }
    return json;
  }

  const Report& report_;
};

}  // namespace

std::vector<std::pair<core::Cause, int>> RestartsByCause(const History& history) {
  std::vector<std::pair<core::Cause, int>> counts;
  const auto& generations = history.generations();
  for (size_t i = 0; i + 1 < generations.size(); ++i) {
    core::Cause cause = generations[i].failure.cause;
    auto found = std::find_if(counts.begin(), counts.end(),
                              [&](const auto& count) { return count.first == cause; });
    if (found == counts.end()) {
      counts.emplace_back(cause, 1);
    } else {
      ++found->second;
    }
  }
  return counts;
}

std::string ToJson(const Report& report) {
  return Writer(report).Write().dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep::cli
