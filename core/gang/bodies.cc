#include "core/gang/bodies.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/duration.h"

namespace lockstep::core {

namespace {

using Json = nlohmann::json;

constexpr size_t kMaxProgress = 512;
constexpr size_t kMaxHistoryInStatus = 16;
constexpr size_t kMaxString = 1024;

// ---- writing ----

double Seconds(Duration d) { return std::chrono::duration<double>(d).count(); }

Json Optional(const std::optional<Duration>& d) { return d ? Json(Seconds(*d)) : Json(nullptr); }

std::string Shortened(const std::string& text) {
  return text.size() <= kMaxString ? text : text.substr(0, kMaxString);
}

Json Write(const Failure& f) {
  Json json = {{"cause", ToString(f.cause)}, {"message", Shortened(f.message)}};
  if (f.machine >= 0) json["machine"] = f.machine;
  if (f.rank >= 0) json["rank"] = f.rank;
  if (f.exit_code >= 0) json["exitCode"] = f.exit_code;
  if (f.signal != 0) json["signal"] = f.signal;
  if (!f.stderr_tail.empty()) json["stderr"] = Shortened(f.stderr_tail);
  return json;
}

Json Write(const Counters& c) {
  return {{"generations", c.generations},
          {"processFailures", c.process_failures},
          {"processFailuresBase", c.process_failures_base},
          {"outOfMemory", c.out_of_memory},
          {"outOfMemoryBase", c.out_of_memory_base},
          {"replacements", c.replacements},
          {"replacementsBase", c.replacements_base},
          {"leasesExpired", c.leases_expired},
          {"stops", c.stops}};
}

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
  return {{"index", m.index},         {"attempt", m.attempt},
          {"state", m.state},         {"silentForSeconds", Seconds(m.silent_for)},
          {"connected", m.connected}, {"replace", m.replace}};
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
          {"failure", Write(g.failure)}};
}

Json Write(const FailurePolicy& p) {
  Json rules = Json::array();
  for (const FailureRule& rule : p.rules) {
    rules.push_back({{"exitCodes", rule.exit_codes},
                     {"signals", rule.signals},
                     {"stderr", rule.stderr_regex},
                     {"action", ToString(rule.action)}});
  }
  return {{"maxRestarts", p.max_restarts},
          {"maxMachineReplacements", p.max_machine_replacements},
          {"resetAfter", FormatDuration(p.reset_after)},
          {"restartGracePeriod", FormatDuration(p.restart_grace_period)},
          {"machineLostAfter", FormatDuration(p.machine_lost_after)},
          {"rules", std::move(rules)}};
}

// One line; bytes of a rank's stderr that are no UTF-8 are replaced.
std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

template <typename List>
Json WriteList(const List& list) {
  Json json = Json::array();
  for (const auto& item : list) json.push_back(Write(item));
  return json;
}

// ---- reading ----

// Thrown by the readers below and caught in Parse: a body is read whole or refused.
struct BadBody {
  std::string message;
};

class Object {
 public:
  Object(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json_.is_object()) throw BadBody{where_ + ": must be an object"};
  }

  bool Has(const char* name) const { return json_.contains(name) && !json_[name].is_null(); }
  const Json& At(const char* name) const {
    if (!Has(name)) throw BadBody{Path(name) + ": is missing"};
    return json_[name];
  }
  Object Child(const char* name) const { return {At(name), Path(name)}; }

  template <typename T>
  T Integer(const char* name, T fallback = 0) const {
    if (!Has(name)) return fallback;
    const Json& value = json_[name];
    bool fits = value.is_number_unsigned()
                    ? std::in_range<T>(value.get<uint64_t>())
                    : value.is_number_integer() && std::in_range<T>(value.get<int64_t>());
    if (!fits) throw BadBody{Path(name) + ": must be an integer in range"};
    return value.get<T>();
  }
  double Number(const char* name, double fallback) const {
    if (!Has(name)) return fallback;
    if (!json_[name].is_number()) throw BadBody{Path(name) + ": must be a number"};
    return json_[name].get<double>();
  }
  bool Bool(const char* name) const {
    if (!Has(name)) return false;
    if (!json_[name].is_boolean()) throw BadBody{Path(name) + ": must be true or false"};
    return json_[name].get<bool>();
  }
  std::string Text(const char* name) const {
    if (!Has(name)) return "";
    if (!json_[name].is_string()) throw BadBody{Path(name) + ": must be a string"};
    return json_[name].get<std::string>();
  }
  // Seconds as a number.
  std::optional<Duration> Span(const char* name) const {
    if (!Has(name)) return std::nullopt;
    double value = Number(name, 0);
    if (!(std::abs(value) < 4e9)) throw BadBody{Path(name) + ": is out of range"};
    return duration_cast<Duration>(std::chrono::duration<double>(value));
  }
  // As Kubernetes writes it: "15s".
  Duration Written(const char* name, Duration fallback) const {
    if (!Has(name)) return fallback;
    Result<Duration> value = ParseDuration(Text(name));
    if (!value.ok()) throw BadBody{Path(name) + ": " + value.error().message};
    return *value;
  }
  template <typename Read>
  auto List(const char* name, size_t limit, Read read) const {
    std::vector<decltype(read(std::declval<Object>()))> list;
    if (!Has(name)) return list;
    const Json& items = json_[name];
    if (!items.is_array() || items.size() > limit) {
      throw BadBody{Path(name) + ": must be a list of at most " + std::to_string(limit)};
    }
    for (const Json& item : items) list.push_back(read(Object(item, Path(name) + "[]")));
    return list;
  }
  std::vector<int> Integers(const char* name) const {
    std::vector<int> list;
    if (!Has(name)) return list;
    const Json& items = json_[name];
    if (!items.is_array() || items.size() > 256) throw BadBody{Path(name) + ": must be a list"};
    for (const Json& item : items) {
      if (!item.is_number_integer() || !std::in_range<int>(item.get<int64_t>())) {
        throw BadBody{Path(name) + ": must hold integers"};
      }
      list.push_back(item.get<int>());
    }
    return list;
  }
  std::string Path(const char* name) const { return where_.empty() ? name : where_ + "." + name; }

 private:
  const Json& json_;
  std::string where_;
};

// The value whose name it is, of an enum with `count` values from 0.
template <typename E>
E Named(const Object& o, const char* name, int count, E fallback) {
  if (!o.Has(name)) return fallback;
  std::string text = o.Text(name);
  for (int i = 0; i < count; ++i) {
    if (text == ToString(static_cast<E>(i))) return static_cast<E>(i);
  }
  throw BadBody{o.Path(name) + ": unknown name " + text};
}

Generation ReadGeneration(const Object& o, const char* name) {
  std::string text = o.Text(name);
  size_t dash = text.find('-');
  Generation g;
  if (text.empty()) return g;
  if (dash == std::string::npos || dash == 0 || dash + 1 == text.size() || text.size() > 21 ||
      text.find_first_not_of("0123456789-") != std::string::npos) {
    throw BadBody{o.Path(name) + ": must be a generation such as 2-5"};
  }
  g.attempt = static_cast<uint32_t>(std::strtoul(text.c_str(), nullptr, 10));
  g.n = static_cast<uint32_t>(std::strtoul(text.c_str() + dash + 1, nullptr, 10));
  return g;
}

Failure ReadFailure(const Object& o) {
  Failure f;
  f.cause = Named(o, "cause", kCauseCount, Cause::kNone);
  f.machine = o.Integer<int>("machine", -1);
  f.rank = o.Integer<int>("rank", -1);
  f.exit_code = o.Integer<int>("exitCode", -1);
  f.signal = o.Integer<int>("signal");
  f.message = o.Text("message");
  f.stderr_tail = o.Text("stderr");
  return f;
}

Counters ReadCounters(const Object& o) {
  Counters c;
  c.generations = o.Integer<uint32_t>("generations");
  c.process_failures = o.Integer<uint32_t>("processFailures");
  c.process_failures_base = o.Integer<uint32_t>("processFailuresBase");
  c.out_of_memory = o.Integer<uint32_t>("outOfMemory");
  c.out_of_memory_base = o.Integer<uint32_t>("outOfMemoryBase");
  c.replacements = o.Integer<uint32_t>("replacements");
  c.replacements_base = o.Integer<uint32_t>("replacementsBase");
  c.leases_expired = o.Integer<uint32_t>("leasesExpired");
  c.stops = o.Integer<uint32_t>("stops");
  return c;
}

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
  if (o.Has("failure")) g.failure = ReadFailure(o.Child("failure"));
  return g;
}

FailurePolicy ReadPolicy(const Object& o) {
  FailurePolicy p;
  p.max_restarts = o.Integer<int>("maxRestarts", p.max_restarts);
  p.max_machine_replacements = o.Integer<int>("maxMachineReplacements", p.max_machine_replacements);
  p.reset_after = o.Written("resetAfter", p.reset_after);
  p.restart_grace_period = o.Written("restartGracePeriod", p.restart_grace_period);
  p.machine_lost_after = o.Written("machineLostAfter", p.machine_lost_after);
  if (p.machine_lost_after < seconds(2) || p.machine_lost_after > minutes(10)) {
    throw BadBody{o.Path("machineLostAfter") + ": must be from 2s to 10m"};
  }
  p.rules = o.List("rules", 64, [](const Object& item) {
    FailureRule rule;
    rule.exit_codes = item.Integers("exitCodes");
    rule.signals = item.Integers("signals");
    rule.stderr_regex = item.Text("stderr");
    rule.action = Named(item, "action", 3, FailureAction::kRestart);
    return rule;
  });
  return p;
}

// Parses `text` and has `read` make a T of it.
template <typename T, typename Read>
Result<T> Parse(std::string_view text, size_t limit, Read read) {
  if (text.size() > limit) {
    return Error::TooLarge("the body is over " + std::to_string(limit) + " bytes");
  }
  // nlohmann's parser recurses no deeper than its input nests; bodies are flat.
  int depth = 0;
  auto shallow = [&depth](int at, Json::parse_event_t, Json&) {
    depth = std::max(depth, at);
    return true;
  };
  Json json = Json::parse(text, shallow, /*allow_exceptions=*/false);
  if (json.is_discarded() || depth > 16) return Error::Invalid("the body is not JSON");
  try {
    return read(Object(json, ""));
  } catch (const BadBody& bad) {
    return Error::Invalid(bad.message);
  } catch (const Json::exception& e) {
    return Error::Invalid(e.what());
  }
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
  status.reason = coordinator.Reason(now);
  status.generation = coordinator.generation();
  status.counters = coordinator.counters();
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

std::string ToJson(const GangWish& wish) {
  Json json = {{"jobUID", wish.job_uid},
               {"epoch", wish.epoch},
               {"observedGeneration", wish.observed_generation},
               {"machineFailures", Write(wish.machine_failures)},
               {"stop", nullptr},
               {"terminated", Json::array()},
               {"fenced", Json::array()}};
  if (wish.policy) json["failurePolicy"] = Write(*wish.policy);
  if (wish.hang_timeout) {
    json["health"] = Json{{"hangTimeout", FormatDuration(*wish.hang_timeout)}};
  }
  if (wish.stop) {
    json["stop"] = {{"reason", ToString(wish.stop->reason)},
                    {"deadlineSeconds", Seconds(wish.stop->grace)}};
  }
  for (const GangWish::Terminated& ended : wish.terminated) {
    json["terminated"].push_back(
        {{"machine", ended.machine}, {"attempt", ended.attempt}, {"cause", ToString(ended.cause)}});
  }
  for (const GangWish::Fenced& fenced : wish.fenced) {
    json["fenced"].push_back({{"machine", fenced.machine}, {"attempt", fenced.attempt}});
  }
  return Dump(json);
}

Result<GangWish> ParseGangWish(std::string_view text) {
  return Parse<GangWish>(text, kMaxGangBody, [](const Object& o) {
    GangWish wish;
    wish.job_uid = o.At("jobUID").get<std::string>();
    o.At("epoch");
    wish.epoch = o.Integer<uint32_t>("epoch");
    wish.observed_generation = o.Integer<int64_t>("observedGeneration");
    if (o.Has("machineFailures")) wish.machine_failures = ReadCounters(o.Child("machineFailures"));
    if (o.Has("failurePolicy")) wish.policy = ReadPolicy(o.Child("failurePolicy"));
    if (o.Has("health")) wish.hang_timeout = o.Child("health").Written("hangTimeout", {});
    if (o.Has("stop")) {
      Object stop = o.Child("stop");
      stop.At("reason");
      GangWish::StopWish wanted;
      wanted.reason = Named(stop, "reason", kStopReasonCount, wanted.reason);
      wanted.grace = stop.Span("deadlineSeconds").value_or(Duration::zero());
      wish.stop = wanted;
    }
    wish.terminated = o.List("terminated", 1024, [](const Object& item) {
      GangWish::Terminated ended;
      ended.machine = item.Integer<uint32_t>("machine");
      ended.attempt = item.Integer<uint32_t>("attempt");
      ended.cause = Named(item, "cause", kCauseCount, ended.cause);
      return ended;
    });
    wish.fenced = o.List("fenced", 1024, [](const Object& item) {
      return GangWish::Fenced{item.Integer<uint32_t>("machine"), item.Integer<uint32_t>("attempt")};
    });
    return wish;
  });
}

std::string ToJson(const Termination& t) {
  Json json = {{"exitCode", t.exit_code},        {"generation", t.generation.ToString()},
               {"machine", t.machine},           {"attempt", t.attempt},
               {"verdict", t.verdict},           {"reason", Shortened(t.reason)},
               {"lastFailure", Write(t.failure)}};
  std::string text = Dump(json);
  // Escapes can triple a string; the stderr tail is what can be done without.
  for (size_t keep = t.failure.stderr_tail.size(); text.size() > kMaxTerminationMessage;) {
    keep /= 2;
    if (keep == 0) {
      json["lastFailure"].erase("stderr");
      json["reason"] = "";
    } else {
      json["lastFailure"]["stderr"] =
          t.failure.stderr_tail.substr(t.failure.stderr_tail.size() - keep);
    }
    text = Dump(json);
    if (keep == 0) break;
  }
  return text;
}

Result<Termination> ParseTermination(std::string_view text) {
  return Parse<Termination>(text, 4096, [](const Object& o) {
    Termination t;
    t.exit_code = o.Integer<int>("exitCode");
    t.generation = ReadGeneration(o, "generation");
    t.machine = o.Integer<uint32_t>("machine");
    t.attempt = o.Integer<uint32_t>("attempt");
    t.verdict = o.Bool("verdict");
    t.reason = o.Text("reason");
    if (o.Has("lastFailure")) t.failure = ReadFailure(o.Child("lastFailure"));
    return t;
  });
}

bool VerdictCounts(const Termination& termination, uint32_t current_attempt,
                   uint32_t highest_machine0_attempt) {
  return termination.verdict && termination.attempt == current_attempt &&
         termination.generation.attempt >= highest_machine0_attempt;
}

}  // namespace lockstep::core
