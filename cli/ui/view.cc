#include "cli/ui/view.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/version.h"
#include "cli/log_lines.h"
#include "cli/run/output/report.h"
#include "core/gang/status/fields.h"
#include "core/model/launch.h"
#include "core/model/names.h"
#include "core/record/writer.h"
#include "core/text/limited_text.h"
#include "core/text/text.h"

namespace lockstep::cli {
namespace {

constexpr int kFormat = 1;
// Silence below is how heartbeats are spaced.
constexpr Duration kQuiet = seconds(2);
// Generations of which machine 0 still tells (16), and the one before them, whose restart they are.
constexpr size_t kMayChange = 20;

double Rounded(double seconds, double parts) { return std::round(seconds * parts) / parts; }

OrderedJson Number(double value) {
  return std::isfinite(value) ? OrderedJson(value) : OrderedJson(nullptr);
}

std::string JobJson(const ViewJob& asked) {
  const core::Spec& spec = asked.job.spec;
  OrderedJson json = {{"name", asked.job.metadata.name},
                      {"uid", asked.job.metadata.uid},
                      {"machines", spec.num_machines},
                      {"processes", spec.processes_per_machine},
                      {"framework", core::ToString(spec.framework)},
                      {"launch", core::ToString(core::LaunchOf(spec))},
                      {"bind", core::ToString(spec.topology.bind)},
                      {"command", spec.command},
                      {"where", asked.where},
                      {"began", FormatMicroTime(asked.began)},
                      {"lockstep", kVersion},
                      {"logNote", WhyNotAlone(spec, 1)}};
  if (!asked.nodes.empty()) json["nodes"] = asked.nodes;
  return DumpJson(json);
}

// A column is there if one of its values is.
template <typename Rows, typename Value>
void AddColumn(OrderedJson& json, std::string_view name, const Rows& rows, Value value) {
  OrderedJson column = OrderedJson::array();
  bool known = false;
  for (const auto& row : rows) {
    OrderedJson cell = value(row);
    known = known || !cell.is_null();
    column.push_back(std::move(cell));
  }
  if (known) json[std::string(name)] = std::move(column);
}

OrderedJson UnlessZero(double value) { return value == 0 ? OrderedJson(nullptr) : Number(value); }

OrderedJson Milli(const std::optional<double>& seconds) {
  return seconds ? Number(Rounded(*seconds, 1e6)) : OrderedJson(nullptr);
}

template <typename Items>
std::string ListJson(const char* name, const Items& items, uint64_t after, size_t dropped) {
  size_t from = items.size();
  // Not only the last may have changed.
  for (size_t i = 0; i < items.size() && from == items.size(); ++i) {
    if (items[i].version > after) from = i;
  }
  if (from == items.size() && after != 0) return "";
  std::string text = ",\"" + std::string(name) + "\":{\"from\":" + std::to_string(from) +
                     ",\"dropped\":" + std::to_string(dropped) + ",\"items\":[";
  for (size_t i = from; i < items.size(); ++i) {
    if (i > from) text += ',';
    text += items[i].text;
  }
  return text + "]}";
}

}  // namespace

View::View(const ViewJob& job, const History* history, Time began, LogRingLimits lines,
           uint64_t version)
    : job_(job.job), history_(history), began_(began), version_(version), log_(lines) {
  Put(asked_, JobJson(job));
  Put(gang_part_, "null");
}

double View::At(Time time) const {
  return Rounded(std::chrono::duration<double>(time - began_).count(), 1e3);
}

void View::Put(Part& part, std::string text) {
  if (part.text == text) return;
  part.text = std::move(text);
  part.version = version_;
}

// ---- what happens ----

void View::Update(const core::GangStatus& gang, Time now, Time born) {
  ++version_;
  heard_ = now;
  gang_ = gang;
  born_ = born;
  gang_known_ = true;
  if (gang.generation != measured_) {
    measured_ = gang.generation;
    meter_.Forget();
    most_waits_.Forget();
    rate_ = {};
  }
  const core::MachineProgress& rows = gang.by_machine;
  for (size_t i = 0; i < rows.machine.size(); ++i) {
    meter_.Update(now, rows.machine[i], {rows.step[i], rows.waits[i], rows.waited[i]});
    most_waits_.Update(now, rows.machine[i], {rows.step[i], rows.waits[i], rows.waited_most[i]});
  }
  for (const core::RankProgress& rank : gang.progress) {
    if (rows.machine.empty()) meter_.Update(now, rank.rank, {rank.step, rank.waits, rank.waited});
  }
  LearnSeries(gang, now);
}

void View::LearnSeries(const core::GangStatus& gang, Time now) {
  std::optional<core::GangProgress> progress = core::Summarize(gang.progress);
  if (!progress) return;
  // Most programs print on rank 0 alone, and printed rates are never added.
  if (progress->source != core::StepSource::kReports) return AddPoint(*progress, now);
  // Until all have reported, the slowest of those that have says nothing of the job.
  const bool some_left_out = !gang.history.empty() && !gang.history.back().members.empty();
  const auto machines = some_left_out ? static_cast<size_t>(gang.history.back().members.size())
                                      : static_cast<size_t>(job_.spec.num_machines);
  const size_t ranks = machines * static_cast<size_t>(core::ProcessesStarted(job_.spec));
  if (gang.progress.size() < std::min(ranks, core::kMaxProgressInStatus)) return;
  const core::MachineProgress& rows = gang.by_machine;
  if (!rows.machine.empty()) {
    if (rows.machine.size() < machines) return;
    progress->step = std::ranges::min(rows.step);
    progress->tokens_per_second =
        std::accumulate(rows.tokens_per_second.begin(), rows.tokens_per_second.end(), 0.0);
  }
  AddPoint(*progress, now);
}

void View::AddPoint(const core::GangProgress& progress, Time now) {
  rate_.Update(now, progress);
  const auto unless_zero = [](double value) {
    return value == 0 ? std::nullopt : std::optional(value);
  };
  SeriesPoint point;
  point.t = At(now);
  point.step = progress.step;
  point.steps_per_second = rate_.steps_per_second();
  point.loss = progress.loss;
  point.tokens_per_second = unless_zero(progress.tokens_per_second);
  point.known = progress.known;
  series_.Add(point, version_);
}

void View::LearnHistory() { ++version_; }

void View::SetStatus(const core::JobStatus& status) {
  if (status == status_) return;
  status_ = status;
  ++version_;
}

void View::SetJob(const ViewJob& job) {
  job_ = job.job;
  std::string text = JobJson(job);
  if (text == asked_.text) return;
  ++version_;
  Put(asked_, std::move(text));
}

void View::LearnMachines(std::string columns) {
  if (columns == columns_) return;
  columns_ = std::move(columns);
  ++version_;
}

void View::LearnProgress(const core::JobProgress& progress, Time at) {
  if (gang_known_ || progress.step <= 0) return;
  ++version_;
  core::GangProgress known;
  known.step = progress.step;
  known.total_steps = progress.total_steps;
  for (const core::ProgressMetric& metric : progress.metrics) {
    const lockstep::Json number = ParseJson(metric.value);
    if (!number.is_number()) continue;
    const auto value = number.get<double>();
    if (metric.name == "loss") known.loss = value;
    if (metric.name == "tokensPerSecond") known.tokens_per_second = value;
    for (const core::KnownFigure& figure : core::kKnownFigures) {
      if (metric.name == figure.name) known.known.*figure.value = value;
    }
  }
  AddPoint(known, at);
}

void View::Hear(Time now) {
  if (!gang_known_) return;
  ++version_;
  heard_ = now;
}

void View::LoseGang() {
  if (!gang_known_) return;
  ++version_;
  gang_known_ = false;
  heard_.reset();
  gang_ = {};
  Put(gang_part_, "null");
  Put(ranks_, "{}");
}

void View::SetSilent(std::optional<Time> since) {
  if (silent_ == since) return;
  silent_ = since;
  ++version_;
}

void View::SetNotes(const std::vector<std::string>& notes) {
  std::string text = DumpJson(OrderedJson(notes));
  if (text == notes_.text || (notes.empty() && notes_.text.empty())) return;
  ++version_;
  Put(notes_, std::move(text));
}

void View::SetQueue(std::string queue) {
  if (queue == queue_.text || (queue == "null" && queue_.text.empty())) return;
  ++version_;
  Put(queue_, std::move(queue));
}

void View::AddEvent(Time now, std::string_view text) {
  ++version_;
  const OrderedJson event = {{"t", At(now)}, {"text", core::FirstBytes(text, kMostOfEvent)}};
  events_.push_back({DumpJson(event), version_});
  if (events_.size() < kMostEvents) return;
  const size_t half = events_.size() / 2;
  events_.erase(events_.begin(), events_.begin() + static_cast<std::ptrdiff_t>(half));
  events_dropped_ += half;
  for (Event& each : events_) each.version = version_;
}

void View::AddLine(Time now, uint32_t rank, StdStream stream, std::string_view text) {
  log_.Add(rank, At(now), stream, text);
}

void View::AddAgentLine(Time now, uint32_t machine, std::string_view line) {
  const core::Spec& spec = job_.spec;
  const RankLine parsed = ParseRankLine(spec.logs.format, line);
  const uint32_t first = machine * static_cast<uint32_t>(spec.processes_per_machine);
  StdStream stream = parsed.stream;
  const bool prefixed = spec.logs.format == core::LogFormat::kPrefix && parsed.rank;
  if (prefixed && stream == StdStream::kUnknown) stream = StdStream::kOut;  // stderr is marked
  AddLine(now, parsed.rank.value_or(first), stream, parsed.text);
}

void View::Finish(Time at, int exit_code) {
  ++version_;
  ended_ = at;
  exit_code_ = exit_code;
}

void View::End(Time now, int exit_code, std::string topology) {
  Finish(now, exit_code);
  KeepLogs();
  if (!topology.empty()) Put(topology_, std::move(topology));
}

void View::KeepLogs() {
  ++version_;
  Put(logs_, DumpJson(log_.Tails(kTailLines, kTailBytes)));
}

// ---- what is known ----

std::string View::Json(uint64_t after, Time now) {
  if (after > version_) after = 0;
  WriteParts(now);
  const std::optional<Time> heard = silent_ ? silent_ : heard_;
  const OrderedJson head = {{"format", kFormat},
                            {"version", version_},
                            {"now", At(ended_.value_or(now))},
                            {"heard", heard ? OrderedJson(At(*heard)) : OrderedJson(nullptr)},
                            {"live", live()}};
  std::string text = DumpJson(head);
  text.pop_back();
  if (ended_) text += ",\"exitCode\":" + std::to_string(exit_code_);
  for (const Part* part : {&asked_, &status_part_, &gang_part_, &notes_, &queue_, &machines_,
                           &ranks_, &bindings_, &logs_, &topology_}) {
    if (part->text.empty() || part->version <= after) continue;
    text.append(",\"").append(part->name).append("\":").append(part->text);
  }
  text += ListJson("generations", generations_, after, generations_dropped_);
  text += ListJson("events", events_, after, events_dropped_);
  if (series_.ChangedSince(after) || after == 0) {
    text += ",\"series\":" + DumpJson(series_.Json(after));
  }
  return text + "}";
}

std::string View::LogJson(std::optional<uint32_t> rank, uint64_t after) const {
  return DumpJson(log_.Answer(rank, after));
}

void View::WriteParts(Time now) {
  if (written_ == version_) return;
  written_ = version_;
  core::JobStatus status = status_;
  core::Trim(status);
  Put(status_part_, core::ToJson(status));
  WriteGenerations(now);
  if (!gang_known_) {
    if (!columns_.empty()) Put(machines_, columns_);
    return;
  }
  Put(gang_part_, GangJson());
  Put(machines_, MachinesJson());
  Put(ranks_, RanksJson());
}

void View::WriteGenerations(Time now) {
  const size_t all = history_->generations().size();
  if (all > generations_dropped_ + kMostGenerations) {
    const size_t dropped = all - kMostGenerations / 2;
    generations_.clear();
    generations_dropped_ = dropped;
  }
  const std::optional<Time> until = live() ? std::optional(now) : ended_;
  for (size_t i = generations_dropped_; i < all; ++i) {
    const size_t place = i - generations_dropped_;
    // Generations older than those that machine 0 still reports never change.
    if (place < generations_.size() && i + kMayChange < all) continue;
    std::string text = ToJson(ReportOf(*history_, i, began_, until));
    if (place == generations_.size()) generations_.emplace_back();
    if (generations_[place].text == text) continue;
    generations_[place] = {std::move(text), version_};
  }
}

std::string View::GangJson() const {
  OrderedJson json = {{"phase", core::ToString(gang_.phase)},
                      {"reason", gang_.reason},
                      {"generation", gang_.generation.ToString()}};
  if (gang_.starts_again) json["startsAgain"] = At(born_ + *gang_.starts_again);
  if (gang_.straggler) {
    json["straggler"] = {{"machine", gang_.straggler->machine},
                         {"cost", Number(gang_.straggler->cost)},
                         {"steps", gang_.straggler->steps},
                         {"because", gang_.straggler->because}};
  }
  if (gang_.parked > 0) json["parked"] = gang_.parked;
  if (!gang_.parked_reason.empty()) json["parkedReason"] = gang_.parked_reason;
  if (!gang_.doubt.empty()) json["doubt"] = gang_.doubt;
  if (!gang_.unwritten.empty()) json["unwritten"] = gang_.unwritten;
  if (gang_.preflight) {
    json["preflight"] = ParseOrderedJson(core::WriteJson(core::WriteRecord(*gang_.preflight)));
  }
  return DumpJson(json);
}

std::string View::MachinesJson() const {
  OrderedJson json = OrderedJson::object();
  const auto& machines = gang_.machines;
  using Machine = core::GangStatus::MachineStatus;
  const auto add = [&](const char* name, auto value) { AddColumn(json, name, machines, value); };
  add("state", [](const Machine& m) -> OrderedJson { return core::ToString(m.state); });
  add("attempt", [](const Machine& m) -> OrderedJson { return m.attempt; });
  add("silent", [](const Machine& m) -> OrderedJson {
    if (m.silent_for < kQuiet) return 0;
    return Rounded(std::chrono::duration<double>(m.silent_for).count(), 10);
  });
  add("binding", [](const Machine& m) -> OrderedJson { return core::ToString(m.binding); });
  add("note",
      [](const Machine& m) -> OrderedJson { return m.slow.empty() ? m.binding_reason : m.slow; });
  return DumpJson(json);
}

std::string View::MachineRanksJson() const {
  const core::MachineProgress& rows = gang_.by_machine;
  int64_t total = 0;
  for (const core::RankProgress& rank : gang_.progress) total = std::max(total, rank.total_steps);
  OrderedJson json = {{"by", "machine"},         {"totalSteps", total},
                      {"machine", rows.machine}, {"reporting", rows.ranks},
                      {"step", rows.step},       {"stepMost", rows.step_most}};
  if (!rows.loss.empty()) json["loss"] = rows.loss;
  if (!rows.loss_most.empty()) json["lossMost"] = rows.loss_most;
  AddColumn(json, "tokensPerSecond", rows.tokens_per_second, UnlessZero);
  const auto add = [&](const char* name, auto value) {
    AddColumn(json, name, rows.machine, value);
  };
  add("stepSeconds", [&](uint32_t m) { return Milli(meter_.Of(m).step_seconds); });
  add("waitSeconds", [&](uint32_t m) { return Milli(meter_.Of(m).wait_seconds); });
  add("waitSecondsMost", [&](uint32_t m) { return Milli(most_waits_.Of(m).wait_seconds); });
  return DumpJson(json);
}

std::string View::RanksJson() const {
  if (!gang_.by_machine.machine.empty()) return MachineRanksJson();
  const auto& ranks = gang_.progress;
  using Rank = core::RankProgress;
  int64_t total = 0;
  for (const Rank& rank : ranks) total = std::max(total, rank.total_steps);
  OrderedJson json = {{"by", "rank"}, {"totalSteps", total}, {"rank", OrderedJson::array()}};
  const auto add = [&](std::string_view name, auto value) { AddColumn(json, name, ranks, value); };
  add("rank", [](const Rank& r) -> OrderedJson { return r.rank; });
  add("step", [](const Rank& r) -> OrderedJson { return r.step; });
  add("loss", [](const Rank& r) { return Number(r.loss); });
  add("tokensPerSecond", [](const Rank& r) { return UnlessZero(r.tokens_per_second); });
  add("stepSeconds", [&](const Rank& r) { return Milli(meter_.Of(r.rank).step_seconds); });
  add("waitSeconds", [&](const Rank& r) { return Milli(meter_.Of(r.rank).wait_seconds); });
  for (const core::KnownFigure& figure : core::kKnownFigures) {
    add(figure.name, [&figure](const Rank& r) { return UnlessZero(r.known.*figure.value); });
  }
  add("throttledSeconds", [](const Rank& r) { return UnlessZero(r.throttled); });
  add("gpu", [](const Rank& r) -> OrderedJson {
    return r.gpu < 0 ? OrderedJson(nullptr) : OrderedJson(r.gpu);
  });
  return DumpJson(json);
}

}  // namespace lockstep::cli
