#include "core/plan/agent_config.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "base/fields.h"
#include "base/text/endpoint.h"
#include "core/model/json.h"
#include "core/model/read.h"
#include "core/model/shortcuts.h"
#include "core/record/reader.h"
#include "core/record/writer.h"
#include "core/text/problem.h"
#include "core/text/text.h"

namespace lockstep::core {
namespace {

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

// Gathers all problems into one line.
class Problems {
 public:
  void Add(const std::string& name, const std::string& what) {
    text_.append(text_.empty() ? "" : "; ").append(name);
    text_.append(name.empty() ? "" : ": ").append(what);
  }
  void Add(const std::vector<Problem>& problems) {
    for (const Problem& problem : problems) {
      if (problem.severity == Severity::kError) Add(problem.path, problem.message);
    }
  }
  bool empty() const { return text_.empty(); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace

template <>
struct AsText<Key> {
  static std::string Format(const Key& key) { return ToHex(key); }
  static Result<Key> Parse(std::string_view text) {
    if (const std::optional<Key> key = ParseHex(text)) return *key;
    return Error::Invalid("must be 64 hexadecimal digits in lower case");
  }
};

template <>
struct Surrogate<TrainingJob> {
  using Type = Node;
  static Node From(const TrainingJob& job) { return ToNode(job); }
  static Result<TrainingJob> To(Node document) {
    LiftShortcuts(document);
    ParseResult parsed = ReadJob(document);
    Problems problems;
    problems.Add(parsed.problems);
    if (!problems.empty()) return Error::Invalid(problems.text());
    return *std::move(parsed.job);
  }
};

// A field at its default is left out, since an agent of an older version may not know it.
template <>
inline constexpr auto kFields<AgentConfig> = std::tuple(
    Field{"jobUID", &AgentConfig::job_uid, Required{}}, Field{"job", &AgentConfig::job, Required{}},
    Field{"machine", &AgentConfig::machine, Required{}},
    Field{"attempt", &AgentConfig::attempt, Required{}},
    Field{"machine0Attempt", &AgentConfig::machine0_attempt, Required{}},
    Field{"epoch", &AgentConfig::epoch, Required{}},
    Field{"firstAttempt", &AgentConfig::first_attempt},
    Field{"predecessorDead", &AgentConfig::predecessor_dead, Required{}},
    Field{"attempts", &AgentConfig::attempts}, Field{"key", &AgentConfig::key},
    Field{"keyFile", &AgentConfig::key_file},
    Field{"coordinator", &AgentConfig::coordinator, Required{}},
    Field{"listen", &AgentConfig::listen, Required{}},
    Field{"metricsListen", &AgentConfig::metrics_listen},
    Field{"advertise", &AgentConfig::advertise, Required{}},
    Field{"runDir", &AgentConfig::run_dir, Required{}}, Field{"cacheDir", &AgentConfig::cache_dir},
    Field{"checkpointPath", &AgentConfig::checkpoint_path},
    Field{"checkpointURL", &AgentConfig::checkpoint_url}, Field{"logPath", &AgentConfig::log_path},
    Field{"terminationPath", &AgentConfig::termination_path},
    Field{"interface", &AgentConfig::interface}, Field{"marksStderr", &AgentConfig::marks_stderr},
    Field{"sharesComputer", &AgentConfig::shares_computer});

namespace {

void CheckAddress(const char* name, const std::string& text, bool any_port, Problems& problems) {
  if (text.empty()) return;
  Result<Endpoint> address = ParseEndpoint(text);
  if (!address.ok()) return problems.Add(name, address.error().message);
  if (!any_port && address->port() == 0) problems.Add(name, "must name a port");
}

// Rules for single fields. A field that could not be read holds its default, which is valid or
// empty.
void CheckEach(const AgentConfig& config, Problems& problems) {
  for (const auto& [name, number] : {std::pair{"attempt", config.attempt},
                                     {"machine0Attempt", config.machine0_attempt},
                                     {"epoch", config.epoch},
                                     {"firstAttempt", config.first_attempt}}) {
    if (number == 0) problems.Add(name, "must be at least 1");
  }
  CheckAddress("coordinator", config.coordinator, /*any_port=*/false, problems);
  CheckAddress("listen", config.listen, /*any_port=*/true, problems);
  CheckAddress("metricsListen", config.metrics_listen, /*any_port=*/true, problems);
  const std::string& ip = config.advertise;
  if (!ip.empty() && !MakeEndpoint(ip, 0).ok()) {
    problems.Add("advertise", "must be an IP address, not \"" + ip + "\"");
  }
}

void CheckTogether(const AgentConfig& config, Problems& problems) {
  for (const auto& [name, text] : {std::pair{"jobUID", &config.job_uid},
                                   {"coordinator", &config.coordinator},
                                   {"listen", &config.listen},
                                   {"advertise", &config.advertise},
                                   {"runDir", &config.run_dir}}) {
    if (text->empty()) problems.Add(name, "must not be empty");
  }
  if (config.key.has_value() != config.key_file.empty()) {
    problems.Add("key", "give either key or keyFile");
  }
  if (config.attempt > config.epoch || config.machine0_attempt > config.epoch) {
    problems.Add("epoch", "must be at least attempt and machine0Attempt");
  }
  auto machines = static_cast<uint32_t>(std::max(config.job.spec.num_machines, 1));
  if (config.machine >= machines) {
    problems.Add("machine", "must be below numMachines, " + std::to_string(machines));
    return;
  }
  const Spec& spec = config.job.spec;
  if (spec.command.empty() && spec.args.empty() && !spec.trainer) {
    problems.Add("job", "names neither a command nor a trainer");
  }
  if (!config.checkpoint_url.empty() && !spec.checkpoint.memory.size) {
    problems.Add("checkpointURL", "needs a job with checkpoint.memory.size");
  }
  if (!config.checkpoint_url.empty() && !config.checkpoint_path.empty()) {
    problems.Add("checkpointURL", "give either checkpointPath or checkpointURL");
  }
  if (config.attempts.empty()) return;
  if (config.attempts.size() != machines) {
    problems.Add("attempts",
                 "must hold one number for each of " + std::to_string(machines) + " machines");
    return;
  }
  if (config.attempts[config.machine] != config.attempt) {
    problems.Add("attempts", "lists machine " + std::to_string(config.machine) +
                                 " with another attempt than this agent's");
  }
  if (*std::max_element(config.attempts.begin(), config.attempts.end()) > config.epoch) {
    problems.Add("epoch", "must be at least the highest of attempts");
  }
}

}  // namespace

std::string ToJson(const AgentConfig& config) { return WriteJson(WriteRecord(config)); }

Result<AgentConfig> ParseAgentConfig(std::string_view text) {
  if (text.size() > kMaxAgentConfig) {
    return Error::TooLarge("the agent's configuration is over " + std::to_string(kMaxAgentConfig) +
                           " bytes");
  }
  const Document document = ReadJson(text, Places::kUntold);
  Problems problems;
  AgentConfig config;
  if (document.root && document.root->IsMap()) {
    RecordReader reader(Author::kUser, "");
    reader.Read(*document.root, config);
    problems.Add(reader.TakeProblems());
    CheckEach(config, problems);
    if (problems.empty()) CheckTogether(config, problems);
  } else if (!document.problems.empty() && !document.problems.front().path.empty()) {
    problems.Add(document.problems);  // names that stand there twice
  } else {                            // the parser's message may show the key
    return Error::Invalid("the agent's configuration is not one JSON object");
  }
  if (!problems.empty()) return Error::Invalid("the agent's configuration: " + problems.text());
  return config;
}

}  // namespace lockstep::core
