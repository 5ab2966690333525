#include "core/plan/agent_config.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "core/model/json.h"
#include "core/model/parse.h"
#include "core/text/problem.h"

namespace lockstep::core {
namespace {

using nlohmann::json;

constexpr const char* kHexDigits = "0123456789abcdef";

std::string ToHex(const Key& key) {
  std::string text;
  for (uint8_t byte : key) {
    text += kHexDigits[byte >> 4];
    text += kHexDigits[byte & 15];
  }
  return text;
}

std::optional<Key> ParseHex(std::string_view text) {
  Key key{};
  if (text.size() != 2 * key.size()) return std::nullopt;
  const std::string_view digits = kHexDigits;
  for (size_t i = 0; i < key.size(); ++i) {
    size_t high = digits.find(text[2 * i]);
    size_t low = digits.find(text[2 * i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) return std::nullopt;
    key[i] = static_cast<uint8_t>(high << 4 | low);
  }
  return key;
}

bool IsIp(const std::string& text, int family) {
  std::array<unsigned char, sizeof(in6_addr)> address{};
  return inet_pton(family, text.c_str(), address.data()) == 1;
}

// The tree of `text`, and in `repeated` the names of top-level fields that stand there twice, which
// the JSON library would merge in silence.
json ParseDocument(std::string_view text, std::vector<std::string>* repeated) {
  std::set<std::string> seen;
  return json::parse(
      text,
      [&](int depth, json::parse_event_t event, json& value) {
        if (depth == 1 && event == json::parse_event_t::key) {
          auto name = value.get<std::string>();
          if (!seen.insert(name).second) repeated->push_back(name);
        }
        return true;
      },
      /*allow_exceptions=*/false);
}

// Takes the fields of one object by name and type, and gathers everything that is wrong with them.
class FieldReader {
 public:
  explicit FieldReader(const json& object) : object_(object) {}

  void Read(const char* name, std::string* out, bool required) {
    const json* value = Find(name, required);
    if (value == nullptr) return;
    if (!value->is_string()) return Fail(name, "must be a string");
    *out = value->get<std::string>();
    if (required && out->empty()) Fail(name, "must not be empty");
  }

  void Read(const char* name, uint32_t* out, uint32_t low, bool required = true) {
    const json* value = Find(name, required);
    if (value == nullptr) return;
    constexpr auto kHigh = std::numeric_limits<uint32_t>::max();
    if (!value->is_number_integer() || *value < low || *value > kHigh) {
      return Fail(name, "must be a whole number from " + std::to_string(low) + " to 4294967295");
    }
    *out = value->get<uint32_t>();
  }

  // Absent is empty.
  void Read(const char* name, std::vector<uint32_t>* out) {
    const json* value = Find(name, /*required=*/false);
    if (value == nullptr) return;
    bool numbers =
        value->is_array() && std::all_of(value->begin(), value->end(), [](const json& i) {
          return i.is_number_unsigned() && i <= std::numeric_limits<uint32_t>::max();
        });
    if (!numbers) return Fail(name, "must be a list of whole numbers from 0 to 4294967295");
    *out = value->get<std::vector<uint32_t>>();
  }

  void Read(const char* name, bool* out) {
    const json* value = Find(name, /*required=*/true);
    if (value == nullptr) return;
    if (!value->is_boolean()) return Fail(name, "must be true or false");
    *out = value->get<bool>();
  }

  void ReadAddress(const char* name, std::string* out, bool required, bool any_port) {
    Read(name, out, required);
    if (out->empty()) return;
    Result<HostPort> address = ParseHostPort(*out);
    if (!address.ok()) return Fail(name, address.error().message);
    if (!any_port && address->port == 0) Fail(name, "must name a port");
  }

  void ReadIp(const char* name, std::string* out) {
    Read(name, out, /*required=*/true);
    if (!out->empty() && !IsIp(*out, AF_INET) && !IsIp(*out, AF_INET6)) {
      Fail(name, "must be an IP address, not \"" + *out + "\"");
    }
  }

  void ReadKey(const char* name, std::optional<Key>* out) {
    const json* value = Find(name, /*required=*/false);
    if (value == nullptr) return;
    if (value->is_string()) *out = ParseHex(value->get_ref<const std::string&>());
    if (!out->has_value()) Fail(name, "must be 64 hexadecimal digits in lower case");
  }

  void ReadJob(const char* name, TrainingJob* out) {
    const json* value = Find(name, /*required=*/true);
    if (value == nullptr) return;
    ParseResult parsed = ParseJson(value->dump());
    for (const Problem& problem : parsed.problems) {
      if (problem.severity != Severity::kError) continue;
      Fail(name, (problem.path.empty() ? "" : problem.path + ": ") + problem.message);
    }
    if (parsed.job) *out = std::move(*parsed.job);
  }

  void RefuseOthers() {
    for (const auto& [name, value] : object_.items()) {
      if (!known_.contains(name)) Fail(name, "unknown field");
    }
  }

  void Fail(const std::string& name, const std::string& what) {
    problems_ += (problems_.empty() ? "" : "; ") + name + ": " + what;
  }

  const std::string& problems() const { return problems_; }

 private:
  const json* Find(const char* name, bool required) {
    known_.insert(name);
    auto found = object_.find(name);
    if (found != object_.end()) return &*found;
    if (required) Fail(name, "missing");
    return nullptr;
  }

  const json& object_;
  std::set<std::string> known_;
  std::string problems_;
};

void JudgeTogether(const AgentConfig& config, FieldReader* reader) {
  if (config.key.has_value() != config.key_file.empty()) {
    reader->Fail("key", "give either key or keyFile");
  }
  if (config.attempt > config.epoch || config.machine0_attempt > config.epoch) {
    reader->Fail("epoch", "must be at least attempt and machine0Attempt");
  }
  auto machines = static_cast<uint32_t>(std::max(config.job.spec.num_machines, 1));
  if (config.machine >= machines) {
    reader->Fail("machine", "must be below numMachines, " + std::to_string(machines));
    return;
  }
  const Spec& spec = config.job.spec;
  if (spec.command.empty() && spec.args.empty() && !spec.trainer) {
    reader->Fail("job", "names neither a command nor a trainer");
  }
  if (config.attempts.empty()) return;
  if (config.attempts.size() != machines) {
    reader->Fail("attempts",
                 "must hold one number for each of " + std::to_string(machines) + " machines");
    return;
  }
  if (config.attempts[config.machine] != config.attempt) {
    reader->Fail("attempts", "says that machine " + std::to_string(config.machine) +
                                 " is of another attempt than this one");
  }
  if (*std::max_element(config.attempts.begin(), config.attempts.end()) > config.epoch) {
    reader->Fail("epoch", "must be at least every one of attempts");
  }
}

}  // namespace

std::string ToJson(const AgentConfig& config) {
  json object = {
      {"jobUID", config.job_uid},
      {"job", json::parse(ToJson(config.job))},
      {"machine", config.machine},
      {"attempt", config.attempt},
      {"machine0Attempt", config.machine0_attempt},
      {"epoch", config.epoch},
      {"predecessorDead", config.predecessor_dead},
      {"coordinator", config.coordinator},
      {"listen", config.listen},
      {"metricsListen", config.metrics_listen},
      {"advertise", config.advertise},
      {"runDir", config.run_dir},
      {"checkpointPath", config.checkpoint_path},
      {"logPath", config.log_path},
      {"terminationPath", config.termination_path},
      {"interface", config.interface},
  };
  // An agent of an older version knows no such field; on clusters it is always 1.
  if (config.first_attempt != 1) object["firstAttempt"] = config.first_attempt;
  if (!config.attempts.empty()) object["attempts"] = config.attempts;
  if (config.key) object["key"] = ToHex(*config.key);
  if (!config.key_file.empty()) object["keyFile"] = config.key_file;
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<AgentConfig> ParseAgentConfig(std::string_view text) {
  if (text.size() > kMaxAgentConfig) {
    return Error::TooLarge("the agent's configuration is over " + std::to_string(kMaxAgentConfig) +
                           " bytes");
  }
  std::vector<std::string> repeated;
  json object = ParseDocument(text, &repeated);
  if (!object.is_object()) {
    return Error::Invalid("the agent's configuration is not one JSON object");
  }
  AgentConfig config;
  FieldReader reader(object);
  for (const std::string& name : repeated) reader.Fail(name, "stands there twice");
  reader.Read("jobUID", &config.job_uid, /*required=*/true);
  reader.ReadJob("job", &config.job);
  reader.Read("machine", &config.machine, 0);
  reader.Read("attempt", &config.attempt, 1);
  reader.Read("machine0Attempt", &config.machine0_attempt, 1);
  reader.Read("epoch", &config.epoch, 1);
  reader.Read("firstAttempt", &config.first_attempt, 1, /*required=*/false);
  reader.Read("predecessorDead", &config.predecessor_dead);
  reader.Read("attempts", &config.attempts);
  reader.ReadKey("key", &config.key);
  reader.Read("keyFile", &config.key_file, /*required=*/false);
  reader.ReadAddress("coordinator", &config.coordinator, /*required=*/true, /*any_port=*/false);
  reader.ReadAddress("listen", &config.listen, /*required=*/true, /*any_port=*/true);
  reader.ReadAddress("metricsListen", &config.metrics_listen, /*required=*/false,
                     /*any_port=*/true);
  reader.ReadIp("advertise", &config.advertise);
  reader.Read("runDir", &config.run_dir, /*required=*/true);
  reader.Read("checkpointPath", &config.checkpoint_path, /*required=*/false);
  reader.Read("logPath", &config.log_path, /*required=*/false);
  reader.Read("terminationPath", &config.termination_path, /*required=*/false);
  reader.Read("interface", &config.interface, /*required=*/false);
  reader.RefuseOthers();
  if (reader.problems().empty()) JudgeTogether(config, &reader);
  if (!reader.problems().empty()) {
    return Error::Invalid("the agent's configuration: " + reader.problems());
  }
  return config;
}

Result<HostPort> ParseHostPort(std::string_view text) {
  Error invalid =
      Error::Invalid("must be IP:PORT or [IPv6]:PORT, not \"" + std::string(text) + "\"");
  size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return invalid;
  HostPort address;
  address.host = text.substr(0, colon);
  int family = AF_INET;
  if (address.host.size() > 2 && address.host.front() == '[' && address.host.back() == ']') {
    address.host = address.host.substr(1, address.host.size() - 2);
    family = AF_INET6;
  }
  if (!IsIp(address.host, family)) return invalid;
  std::string_view port = text.substr(colon + 1);
  auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (port.empty() || error != std::errc() || end != port.data() + port.size()) return invalid;
  return address;
}

std::string ToString(const HostPort& address) {
  bool ipv6 = address.host.find(':') != std::string::npos;
  return (ipv6 ? "[" + address.host + "]" : address.host) + ":" + std::to_string(address.port);
}

}  // namespace lockstep::core
