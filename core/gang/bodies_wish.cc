#include "core/gang/bodies.h"
#include "core/gang/body_parts.h"

namespace lockstep::core {

using body::BadBody;
using body::Dump;
using body::Json;
using body::Named;
using body::Object;
using body::Parse;
using body::ReadCounters;
using body::Seconds;
using body::Write;

namespace {

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

}  // namespace

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

}  // namespace lockstep::core
