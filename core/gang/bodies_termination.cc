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
using body::Shortened;

namespace {

constexpr size_t kShortMessage = 256;

Json Write(const GangProgress& p) {
  Json json = {{"step", p.step}};
  if (p.total_steps > 0) json["totalSteps"] = p.total_steps;
  if (p.loss) json["loss"] = *p.loss;
  if (p.tokens_per_second > 0) json["tokensPerSecond"] = p.tokens_per_second;
  return json;
}

GangProgress ReadTerminationProgress(const Object& o) {
  GangProgress p;
  p.step = o.Integer<int64_t>("step");
  p.total_steps = o.Integer<int64_t>("totalSteps");
  if (o.Has("loss")) p.loss = o.Number("loss", 0);
  p.tokens_per_second = o.Number("tokensPerSecond", 0);
  return p;
}

}  // namespace

std::string ToJson(const Termination& t) {
  Json json = {{"exitCode", t.exit_code},
               {"generation", t.generation.ToString()},
               {"machine", t.machine},
               {"attempt", t.attempt},
               {"verdict", t.verdict},
               {"reason", Shortened(t.reason)},
               {"lastFailure", body::Write(t.failure)}};
  if (t.counters) json["counters"] = body::Write(*t.counters);
  if (t.progress) json["progress"] = Write(*t.progress);
  std::string text = Dump(json);
  // Escapes can triple a string; the stderr tail is what can be done without.
  for (size_t keep = t.failure.stderr_tail.size(); text.size() > kMaxTerminationMessage;) {
    keep /= 2;
    if (keep == 0) {
      json["lastFailure"].erase("stderr");
      json["lastFailure"]["message"] = t.failure.message.substr(0, kShortMessage);
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
    if (o.Has("counters")) t.counters = ReadCounters(o.Child("counters"));
    if (o.Has("progress")) t.progress = ReadTerminationProgress(o.Child("progress"));
    return t;
  });
}

bool VerdictCounts(const Termination& termination, uint32_t current_attempt,
                   uint32_t highest_machine0_attempt) {
  return termination.verdict && termination.attempt == current_attempt &&
         termination.generation.attempt >= highest_machine0_attempt;
}

}  // namespace lockstep::core
