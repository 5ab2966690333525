#include "core/status/status.h"

#include <algorithm>
#include <tuple>

#include "core/record/writer.h"
#include "core/status/status_fields.h"
#include "core/text/limited_text.h"
#include "core/text/text.h"

namespace lockstep::core {
namespace {

void Floor(WallTime& time) { time = std::chrono::floor<milliseconds>(time); }
void Floor(std::optional<WallTime>& time) {
  if (time) Floor(*time);
}

void Shorten(std::string& text) { text = FirstBytes(text, kMaxStatusString); }

template <typename T>
void KeepFirst(std::vector<T>& list, size_t count) {
  if (list.size() > count) list.resize(count);
}

template <typename T>
void KeepLast(std::vector<T>& list, size_t count) {
  if (list.size() <= count) return;
  list.erase(list.begin(), list.end() - static_cast<std::ptrdiff_t>(count));
}

void TrimFailure(LastFailure& failure) {
  Floor(failure.time);
  Shorten(failure.node);
  Shorten(failure.failure.message);
  failure.failure.stderr_tail = LastBytes(failure.failure.stderr_tail, kMaxStatusStderr);
}

void TrimMachines(std::vector<MachineStatus>& machines) {
  const auto badness = [](const MachineStatus& machine) {
    return std::tuple(machine.state, -machine.replacements, machine.index);
  };
  std::sort(machines.begin(), machines.end(),
            [&](const auto& a, const auto& b) { return badness(a) < badness(b); });
  KeepFirst(machines, kMaxMachineStatuses);
  for (MachineStatus& machine : machines) {
    Shorten(machine.pod);
    Shorten(machine.node);
    Shorten(machine.binding);
  }
}

void TrimProgress(JobProgress& progress) {
  Floor(progress.last_updated);
  KeepFirst(progress.metrics, kMaxMetrics);
  Shorten(progress.source);
  for (ProgressMetric& metric : progress.metrics) {
    Shorten(metric.name);
    Shorten(metric.value);
  }
}

// Half of the longest of what a status can do without; false when nothing is left.
bool DropMore(JobStatus& status) {
  if (!status.machine_statuses.empty()) {
    KeepFirst(status.machine_statuses, status.machine_statuses.size() / 2);
    return true;
  }
  if (!status.history.empty()) {
    KeepLast(status.history, status.history.size() / 2);
    return true;
  }
  return false;
}

}  // namespace

void Shorten(JobStatus& status) {
  if (status.prestart) Shorten(status.prestart->reason);
  if (status.preflight) {
    Shorten(status.preflight->typical);
    for (SlowMachine& slow : status.preflight->slow) Shorten(slow.because);
  }
  for (std::string* text : {&status.reason, &status.ready, &status.progress_text,
                            &status.agent.image, &status.selector}) {
    Shorten(*text);
  }
  KeepFirst(status.conditions, kMaxConditions);
  for (Condition& condition : status.conditions) {
    Shorten(condition.type);
    Shorten(condition.reason);
    Shorten(condition.message);
    condition.last_transition_time = std::chrono::floor<seconds>(condition.last_transition_time);
  }
  TrimMachines(status.machine_statuses);
  if (status.last_failure) TrimFailure(*status.last_failure);
  KeepLast(status.history, kMaxStatusHistory);
  for (RestartRecord& record : status.history) {
    for (auto* time : {&record.detected, &record.respawned, &record.first_step}) Floor(*time);
    Shorten(record.reason);
  }
  if (status.progress) TrimProgress(*status.progress);
  if (status.restart) {
    Shorten(status.restart->reason);
    Shorten(status.restart->requested_by);
    for (auto* time : {&status.restart->asked, &status.restart->done}) Floor(*time);
  }
  KeepFirst(status.suspect_nodes, kMaxSuspectNodes);
  for (SuspectNode& suspect : status.suspect_nodes) {
    Shorten(suspect.node);
    Shorten(suspect.message);
    Floor(suspect.last);
  }
  if (status.code) {
    Shorten(status.code->by);
    Floor(status.code->since);
  }
  Timings& timings = status.timings;
  for (auto* time : {&timings.created, &timings.scheduled, &timings.started, &timings.first_step,
                     &timings.finished}) {
    Floor(*time);
  }
}

void Trim(JobStatus& status) {
  Shorten(status);
  while (ToJson(status).size() > kMaxStatusBytes && DropMore(status)) {
  }
}

bool SetCondition(std::vector<Condition>& conditions, Condition wanted, WallTime now) {
  wanted.last_transition_time = std::chrono::floor<seconds>(now);
  const auto found =
      std::find_if(conditions.begin(), conditions.end(),
                   [&](const Condition& condition) { return condition.type == wanted.type; });
  if (found == conditions.end()) {
    conditions.push_back(std::move(wanted));
    return true;
  }
  if (found->status == wanted.status) wanted.last_transition_time = found->last_transition_time;
  if (*found == wanted) return false;
  *found = std::move(wanted);
  return true;
}

const Condition* FindCondition(const std::vector<Condition>& conditions, std::string_view type) {
  const auto found =
      std::find_if(conditions.begin(), conditions.end(),
                   [&](const Condition& condition) { return condition.type == type; });
  return found == conditions.end() ? nullptr : &*found;
}

Node ToNode(const JobStatus& status) { return WriteRecord(status); }

std::string ToJson(const JobStatus& status) { return WriteJson(ToNode(status)); }

}  // namespace lockstep::core
