#include <limits>

#include "core/gang/bodies.h"
#include "core/gang/body_parts.h"

namespace lockstep::core {

using body::Dump;
using body::Json;
using body::Object;
using body::Parse;
using body::ReadCounters;
using body::ReadFailure;
using body::ReadGeneration;

namespace {

constexpr size_t kMaxProgress = 512;
constexpr size_t kMaxHistoryInStatus = 16;
constexpr size_t kMaxBindingReasons = 8;  // one is enough to act on

// ---- writing ----

using body::Seconds;
using body::Shortened;
using body::Write;

Json Optional(const std::optional<Duration>& d) { return d ? Json(Seconds(*d)) : Json(nullptr); }

Json Write(const Verdict& v) {
  return {{"generation", v.generation.ToString()},
          {"exitCode", v.exit_code},
          {"reason", Shortened(v.reason)},
          {"failure", Write(v.failure)}};
}

Json Write(const RankProgress& p) {
  Json json = {{"rank", p.rank}, {"step", p.step}};
  if (p.total_steps > 0) json["totalSteps"] = p.total_steps;
  if (std::isfinite(p.loss)) json["loss"] = p.loss;
  if (std::isfinite(p.tokens_per_second) && p.tokens_per_second > 0) {
    json["tokensPerSecond"] = p.tokens_per_second;
  }
  return json;
}

Json Write(const GangStatus::MachineStatus& m) {
  Json json = {{"index", m.index},         {"attempt", m.attempt},
               {"state", m.state},         {"silentForSeconds", Seconds(m.silent_for)},
               {"connected", m.connected}, {"replace", m.replace}};
  if (!m.binding.empty()) json["binding"] = m.binding;
  if (!m.binding_reason.empty()) json["bindingReason"] = m.binding_reason;
  return json;
}

Json Write(const GangStatus::GenerationStatus& g) {
  return {{"generation", g.generation.ToString()},
          {"announced", Optional(g.announced)},
          {"spawned", Optional(g.spawned)},
          {"firstStep", Optional(g.first_step)},
          {"died", Optional(g.died)},
          {"stopSent", Optional(g.stop_sent)},
          {"allStopped", Optional(g.all_stopped)},
          {"ended", Optional(g.ended)},
          {"stopReason", g.stop_reason},
          {"resume", g.resume},
          {"resumedAt", g.resumed_at},
          {"lastStep", g.last_step},
          {"failure", Write(g.failure)}};
}

template <typename List>
Json WriteList(const List& list) {
  Json json = Json::array();
  for (const auto& item : list) json.push_back(Write(item));
  return json;
}

// ---- reading ----

Verdict ReadVerdict(const Object& o) {
  Verdict v;
  v.generation = ReadGeneration(o, "generation");
  v.exit_code = o.Integer<uint32_t>("exitCode");
  v.reason = o.Text("reason");
  if (o.Has("failure")) v.failure = ReadFailure(o.Child("failure"));
  return v;
}

RankProgress ReadProgress(const Object& o) {
  RankProgress p;
  p.rank = o.Integer<uint32_t>("rank");
  p.step = o.Integer<int64_t>("step");
  p.total_steps = o.Integer<int64_t>("totalSteps");
  p.loss = o.Number("loss", std::numeric_limits<double>::quiet_NaN());
  p.tokens_per_second = o.Number("tokensPerSecond", 0);
  return p;
}

GangStatus::MachineStatus ReadMachine(const Object& o) {
  GangStatus::MachineStatus m;
  m.index = o.Integer<uint32_t>("index");
  m.attempt = o.Integer<uint32_t>("attempt");
  m.state = o.Text("state");
  m.silent_for = o.Span("silentForSeconds").value_or(Duration::zero());
  m.connected = o.Bool("connected");
  m.replace = o.Bool("replace");
  m.binding = o.Text("binding");
  m.binding_reason = o.Text("bindingReason");
  return m;
}

GangStatus::GenerationStatus ReadGenerationStatus(const Object& o) {
  GangStatus::GenerationStatus g;
  g.generation = ReadGeneration(o, "generation");
  g.announced = o.Span("announced");
  g.spawned = o.Span("spawned");
  g.first_step = o.Span("firstStep");
  g.died = o.Span("died");
  g.stop_sent = o.Span("stopSent");
  g.all_stopped = o.Span("allStopped");
  g.ended = o.Span("ended");
  g.stop_reason = o.Text("stopReason");
  g.resume = o.Text("resume");
  g.resumed_at = o.Integer<int64_t>("resumedAt");
  g.last_step = o.Integer<int64_t>("lastStep");
  if (o.Has("failure")) g.failure = ReadFailure(o.Child("failure"));
  return g;
}

// ---- from the state machines ----

std::optional<Duration> Since(Time born, Time at) {
  return at == kNever ? std::nullopt : std::optional<Duration>(at - born);
}

}  // namespace

GangStatus StatusOf(const Coordinator& coordinator, Time now, Time born) {
  GangStatus status;
  const CoordinatorConfig& config = coordinator.config();
  status.version = coordinator.version();
  status.job_uid = config.job_uid;
  status.attempt = config.attempt;
  status.coordinator = true;
  status.machine0_attempt = config.attempt;
  status.phase = ToString(coordinator.phase());
  status.reason = coordinator.Reason();
  status.starts_again = Since(born, coordinator.starts_again());
  status.generation = coordinator.generation();
  status.counters = coordinator.counters();
  size_t reasons = 0;
  for (uint32_t i = 0; i < config.machines; ++i) {
    MachineView view = coordinator.machine(now, i);
    GangStatus::MachineStatus machine;
    machine.index = i;
    machine.attempt = view.attempt;
    machine.state = view.attempt == 0 ? "Absent"
                    : view.lost       ? "Lost"
                    : view.draining   ? "Draining"
                                      : ToString(view.phase);
    machine.silent_for = view.silent_for;
    machine.connected = view.connected;
    machine.replace = view.replace;
    machine.binding = ToString(view.binding);
    if (reasons < kMaxBindingReasons && !view.binding_reason.empty()) {
      machine.binding_reason = std::move(view.binding_reason);
      ++reasons;
    }
    status.machines.push_back(std::move(machine));
  }
  for (const auto& [rank, progress] : coordinator.progress()) {
    if (status.progress.size() == kMaxProgress) break;
    status.progress.push_back(progress);
  }
  const auto& history = coordinator.history();
  size_t first = history.size() > kMaxHistoryInStatus ? history.size() - kMaxHistoryInStatus : 0;
  for (size_t i = first; i < history.size(); ++i) {
    const GenerationRecord& record = history[i];
    GangStatus::GenerationStatus g;
    g.generation = record.generation;
    g.announced = Since(born, record.announced);
    g.spawned = Since(born, record.spawned);
    g.first_step = Since(born, record.first_step);
    g.died = Since(born, record.died);
    g.stop_sent = Since(born, record.stop_sent);
    g.all_stopped = Since(born, record.all_stopped);
    g.ended = Since(born, record.ended);
    if (record.stop_sent != kNever) g.stop_reason = ToString(record.stop_reason);
    g.resume = record.resume;
    g.resumed_at = record.resumed_at;
    g.last_step = record.last_step;
    g.failure = record.failure;
    status.history.push_back(std::move(g));
  }
  status.last_failure = coordinator.last_failure();
  status.verdict = coordinator.verdict();
  return status;
}

GangStatus StatusOf(const Member& member, Time now) {
  GangStatus status;
  const MemberConfig& config = member.config();
  status.job_uid = config.job_uid;
  status.machine = config.machine;
  status.attempt = config.attempt;
  status.machine0_attempt = member.machine0_attempt();
  status.phase = ToString(member.phase());
  status.reason = member.welcomed() ? "" : "not connected to machine 0";
  status.generation = member.generation();
  status.counters = member.counters();
  GangStatus::MachineStatus self;
  self.index = config.machine;
  self.attempt = config.attempt;
  self.state = ToString(member.phase());
  self.connected = member.welcomed();
  self.binding = ToString(member.report().binding);
  self.binding_reason = member.report().binding_reason;
  GangStatus::MachineStatus machine0;
  machine0.attempt = member.machine0_attempt();
  machine0.silent_for = member.coordinator_silence(now);
  machine0.connected = member.welcomed();
  machine0.state = member.welcomed() ? "Running" : "Lost";
  status.machines = {std::move(machine0), std::move(self)};
  for (const auto& [rank, progress] : member.progress()) status.progress.push_back(progress);
  return status;
}

std::string ToJson(const GangStatus& status) {
  Json json = {{"version", status.version},
               {"jobUID", status.job_uid},
               {"machine", status.machine},
               {"attempt", status.attempt},
               {"coordinator", status.coordinator},
               {"machine0Attempt", status.machine0_attempt},
               {"phase", status.phase},
               {"reason", Shortened(status.reason)},
               {"startsAgain", Optional(status.starts_again)},
               {"generation", status.generation.ToString()},
               {"counters", Write(status.counters)},
               {"machines", WriteList(status.machines)},
               {"progress", WriteList(status.progress)},
               {"history", WriteList(status.history)},
               {"lastFailure", Write(status.last_failure)}};
  if (status.verdict) json["verdict"] = Write(*status.verdict);
  return Dump(json);
}

Result<GangStatus> ParseGangStatus(std::string_view text) {
  return Parse<GangStatus>(text, kMaxStatusBody, [](const Object& o) {
    GangStatus status;
    status.version = o.Integer<uint64_t>("version");
    status.job_uid = o.Text("jobUID");
    status.machine = o.Integer<uint32_t>("machine");
    status.attempt = o.Integer<uint32_t>("attempt");
    status.coordinator = o.Bool("coordinator");
    status.machine0_attempt = o.Integer<uint32_t>("machine0Attempt");
    status.phase = o.Text("phase");
    status.reason = o.Text("reason");
    status.starts_again = o.Span("startsAgain");
    status.generation = ReadGeneration(o, "generation");
    if (o.Has("counters")) status.counters = ReadCounters(o.Child("counters"));
    status.machines = o.List("machines", 1024, ReadMachine);
    status.progress = o.List("progress", kMaxProgress, ReadProgress);
    status.history = o.List("history", kMaxHistory, ReadGenerationStatus);
    if (o.Has("lastFailure")) status.last_failure = ReadFailure(o.Child("lastFailure"));
    if (o.Has("verdict")) status.verdict = ReadVerdict(o.Child("verdict"));
    return status;
  });
}

}  // namespace lockstep::core
