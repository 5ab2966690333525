#include "core/gang/body_parts.h"

#include <cstdlib>

namespace lockstep::core::body {

namespace {

constexpr size_t kMaxString = 1024;

}  // namespace

double Seconds(Duration d) { return std::chrono::duration<double>(d).count(); }

std::string Shortened(const std::string& text) {
  return text.size() <= kMaxString ? text : text.substr(0, kMaxString);
}

// One line; bytes of a rank's stderr that are no UTF-8 are replaced.
std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
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

}  // namespace lockstep::core::body
