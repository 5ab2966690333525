#include "cli/mcp/tools.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "core/text/problem.h"

namespace lockstep::cli::mcp {
namespace {

constexpr int kDefaultLines = 200;
constexpr int kMostLines = 1000;
constexpr size_t kMostOfJob = size_t{1} << 20;
constexpr size_t kMostOfReason = 256;
constexpr size_t kMostOfName = 253;  // of a name in Kubernetes

// Adds words to a command as its arguments ask for them.
class Words {
 public:
  Words(const Json& arguments, const ToolOptions& options)
      : arguments_(arguments), options_(options) {}

  std::string Text(const char* name) const {
    return arguments_.contains(name) ? arguments_[name].get<std::string>() : "";
  }
  bool Flag(const char* name) const {
    return arguments_.contains(name) && arguments_[name].get<bool>();
  }
  std::optional<int64_t> Number(const char* name) const {
    if (!arguments_.contains(name)) return std::nullopt;
    return arguments_[name].get<int64_t>();
  }

  void AddNumber(const char* name, const char* option, std::vector<std::string>* words) const {
    if (const auto number = Number(name)) {
      words->insert(words->end(), {option, std::to_string(*number)});
    }
  }
  void AddFlag(const char* name, const char* option, std::vector<std::string>* words) const {
    if (Flag(name)) words->emplace_back(option);
  }
  // Where the cluster is.
  void AddCluster(std::vector<std::string>* words) const {
    words->insert(words->end(), options_.cluster.begin(), options_.cluster.end());
    const std::string asked = Text("namespace");
    const std::string& name_space = asked.empty() ? options_.name_space : asked;
    if (!name_space.empty()) words->insert(words->end(), {"-n", name_space});
  }
  // A run on this computer, if one has the name and no namespace is given.
  void AddPlace(std::vector<std::string>* words) const {
    const bool here = !arguments_.contains("namespace") &&
                      std::ranges::find(options_.runs, Text("name")) != options_.runs.end();
    if (!here) AddCluster(words);
  }

 private:
  const Json& arguments_;
  const ToolOptions& options_;
};

std::vector<Command> ListJobs(const Words& words) {
  Command here{.words = {"list", "--here"},
               .input = "",
               .title = "Runs on this computer:",
               .keeps_end = false,
               .optional = true};
  Command there{.words = {"list", "-o", "wide"},
                .input = "",
                .title = "TrainingJobs of the cluster:",
                .keeps_end = false,
                .optional = true};
  words.AddFlag("all_namespaces", "-A", &there.words);
  words.AddCluster(&there.words);
  std::vector<Command> commands;
  commands.push_back(std::move(here));
  commands.push_back(std::move(there));
  return commands;
}

std::vector<Command> GetJob(const Words& words) {
  Command command{.words = {"status", words.Text("name")}};
  if (words.Text("format") == "json") command.words.insert(command.words.end(), {"-o", "json"});
  words.AddPlace(&command.words);
  return {command};
}

std::vector<Command> ExplainFailure(const Words& words) {
  Command command{.words = {"why", words.Text("name")}};
  words.AddPlace(&command.words);
  return {command};
}

std::vector<Command> Logs(const Words& words) {
  const int64_t lines = words.Number("lines").value_or(kDefaultLines);
  Command command{.words = {"logs", words.Text("name"), "--tail", std::to_string(lines)},
                  .keeps_end = true};
  words.AddNumber("rank", "--rank", &command.words);
  words.AddNumber("machine", "--machine", &command.words);
  words.AddPlace(&command.words);
  return {command};
}

std::vector<Command> Stacks(const Words& words) {
  Command command{.words = {"debug", words.Text("name")}};
  words.AddNumber("rank", "--rank", &command.words);
  words.AddFlag("kernel", "--kernel", &command.words);
  words.AddPlace(&command.words);
  return {command};
}

std::vector<Command> Validate(const Words& words) {
  Command command{.words = {"validate", "-"}, .input = words.Text("job")};
  if (words.Text("target") == "local") {
    command.words.insert(command.words.end(), {"--target", "local"});
  }
  return {command};
}

std::vector<Command> Plan(const Words& words) {
  Command command{.words = {"plan", "-"}, .input = words.Text("job")};
  words.AddNumber("machines", "--machines", &command.words);
  words.AddNumber("processes", "--processes", &command.words);
  return {command};
}

std::vector<Command> Restart(const Words& words) {
  Command command{.words = {"restart", words.Text("name")}};
  if (const std::string reason = words.Text("reason"); !reason.empty()) {
    command.words.push_back("--reason=" + reason);
  }
  words.AddFlag("at_commit", "--at-commit", &command.words);
  words.AddPlace(&command.words);
  return {command};
}

// A command that takes the job's name alone.
std::vector<Command> OnCluster(std::vector<std::string> of_name, const Words& words) {
  Command command{.words = std::move(of_name)};
  command.words.insert(command.words.begin() + 1, words.Text("name"));
  words.AddCluster(&command.words);
  return {command};
}
std::vector<Command> Suspend(const Words& words) { return OnCluster({"suspend"}, words); }
std::vector<Command> Resume(const Words& words) { return OnCluster({"resume"}, words); }
std::vector<Command> Delete(const Words& words) {
  return OnCluster({"delete", "--no-wait"}, words);
}

std::vector<Command> Submit(const Words& words) {
  Command command{.words = {"submit", "-"}, .input = words.Text("job")};
  words.AddFlag("dry_run", "--dry-run", &command.words);
  words.AddCluster(&command.words);
  return {command};
}

enum class Type : uint8_t { kName, kText, kNumber, kFlag, kChoice };

struct Parameter {
  const char* name;
  Type type;
  const char* description;
  bool required = false;
  int64_t least = 0;
  int64_t most = std::numeric_limits<int32_t>::max();
  size_t most_bytes = 0;  // of a text
  std::vector<std::string> choices{};
};

struct Tool {
  const char* name;
  const char* title;
  const char* description;
  std::vector<Command> (*commands)(const Words& words);
  std::vector<Parameter> parameters;
  bool writes = false;
  bool destroys = false;
};

Parameter Name() {
  return {"name", Type::kName, "Name of the run on this computer, else of the TrainingJob", true};
}
Parameter ClusterName() { return {"name", Type::kName, "Name of the TrainingJob", true}; }
Parameter Namespace() {
  return {"namespace", Type::kName,
          "Namespace of a TrainingJob. If it is given, runs on this computer are not considered"};
}
Parameter Rank(const char* description) { return {"rank", Type::kNumber, description}; }
Parameter Job() {
  Parameter job{"job", Type::kText, "A whole TrainingJob (lockstep.dev/v1alpha1) as YAML or JSON",
                true};
  job.most_bytes = kMostOfJob;
  return job;
}

const std::vector<Tool>& Tools() {
  static const std::vector<Tool> kTools = {
      {"list_jobs",
       "List training jobs",
       "Lists the runs on this computer and the TrainingJobs of the cluster, with state, ready "
       "machines, restarts and progress.",
       ListJobs,
       {Namespace(), {"all_namespaces", Type::kFlag, "List the TrainingJobs of every namespace"}}},
      {"get_job",
       "Show one job",
       "Shows one job: state and its reason, machines, progress, phases, last failure, restarts "
       "and where its time went. format=json gives the whole object with spec and status.",
       GetJob,
       {Name(),
        Namespace(),
        {"format", Type::kChoice, "text (default) or json", false, 0, 0, 0, {"text", "json"}}}},
      {"explain_failure",
       "Explain a failure",
       "Explains the last failure of a job: root cause, rank, machine and node, the rank's last "
       "lines, what the cause means, what to do, and how much of the restart budget is used. "
       "Begin here if a job failed or restarts.",
       ExplainFailure,
       {Name(), Namespace()}},
      {"logs",
       "Read logs",
       "Returns the last lines that a job's processes printed. Name a rank or a machine if the "
       "job is large.",
       Logs,
       {Name(),
        Namespace(),
        Rank("Lines of this rank only"),
        {"machine", Type::kNumber, "Lines of this machine only; not together with rank"},
        {"lines", Type::kNumber, "How many lines of each machine; 200 if absent", false, 1,
         kMostLines}}},
      {"stacks",
       "Show where ranks are",
       "Shows where each rank of a running job is: Python and native stacks, and which ranks wait "
       "for which. Use it if a job hangs or is slow.",
       Stacks,
       {Name(),
        Namespace(),
        Rank("Show the stacks of this rank only"),
        {"kernel", Type::kFlag, "Also each thread's system call and kernel stack"}}},
      {"validate",
       "Validate a job",
       "Reports every error and warning of a TrainingJob with line and column. Changes nothing.",
       Validate,
       {Job(),
        {"target",
         Type::kChoice,
         "cluster (default), or local for `lockstep run`, which needs no image",
         false,
         0,
         0,
         0,
         {"cluster", "local"}}}},
      {"plan",
       "Plan a job",
       "Shows the ranks, environment and binding that each machine and process of a TrainingJob "
       "would get on this computer. Runs nothing.",
       Plan,
       {Job(),
        {"machines", Type::kNumber, "Instead of spec.numMachines", false, 1, 4096},
        {"processes", Type::kNumber, "Instead of spec.processesPerMachine", false, 1, 64}}},
      {"restart",
       "Restart all ranks",
       "Starts a new generation of a job on the machines that it has. Costs no restart budget. "
       "Steps since the last checkpoint are done again unless at_commit is true.",
       Restart,
       {Name(),
        Namespace(),
        {"reason", Type::kText, "Why, for history and events", false, 0, 0, kMostOfReason},
        {"at_commit", Type::kFlag, "Wait until the program commits a checkpoint"}},
       true},
      {"suspend",
       "Suspend a job",
       "Stops a TrainingJob and gives its machines back. `resume` continues it from its last "
       "checkpoint.",
       Suspend,
       {ClusterName(), Namespace()},
       true},
      {"resume",
       "Resume a job",
       "Lets a suspended TrainingJob continue from its last checkpoint.",
       Resume,
       {ClusterName(), Namespace()},
       true},
      {"delete",
       "Delete a job",
       "Deletes a TrainingJob and its pods. It cannot be undone.",
       Delete,
       {ClusterName(), Namespace()},
       true,
       true},
      {"submit",
       "Submit a job",
       "Creates a TrainingJob on the cluster. It fails if a job of that name exists.",
       Submit,
       {Job(),
        Namespace(),
        {"dry_run", Type::kFlag, "Let the API server judge the job, and create nothing"}},
       true},
  };
  return kTools;
}

const Tool* Find(std::string_view name, const ToolOptions& options) {
  const auto found = std::ranges::find(Tools(), name, &Tool::name);
  const bool allowed = found != Tools().end() && (options.allow_write || !found->writes);
  return allowed ? &*found : nullptr;
}

OrderedJson SchemaOf(const Tool& tool) {
  OrderedJson properties = OrderedJson::object();
  OrderedJson required = OrderedJson::array();
  for (const Parameter& each : tool.parameters) {
    OrderedJson schema = OrderedJson::object();
    switch (each.type) {
      case Type::kName:
        schema = {{"type", "string"}, {"minLength", 1}, {"maxLength", kMostOfName}};
        break;
      case Type::kText:
        schema = {{"type", "string"}, {"maxLength", each.most_bytes}};
        break;
      case Type::kNumber:
        schema = {{"type", "integer"}, {"minimum", each.least}, {"maximum", each.most}};
        break;
      case Type::kFlag:
        schema = {{"type", "boolean"}};
        break;
      case Type::kChoice:
        schema = {{"type", "string"}, {"enum", each.choices}};
        break;
    }
    schema["description"] = each.description;
    properties[each.name] = std::move(schema);
    if (each.required) required.push_back(each.name);
  }
  OrderedJson schema = {{"type", "object"}, {"properties", std::move(properties)}};
  if (!required.empty()) schema["required"] = std::move(required);
  schema["additionalProperties"] = false;
  return schema;
}

// What a name may hold, so that no word of it can be an option.
bool IsName(const std::string& text) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  };
  return !text.empty() && text.size() <= kMostOfName && text.front() != '-' &&
         std::ranges::all_of(text, is_letter);
}

// "" if `value` is as the parameter wants it.
std::string ProblemOf(const Parameter& parameter, const Json& value) {
  const std::string name = parameter.name;
  switch (parameter.type) {
    case Type::kName:
      if (value.is_string() && IsName(value.get<std::string>())) return "";
      return name + " must be a name of small letters, digits, dashes and dots";
    case Type::kText:
      if (!value.is_string()) return name + " must be a string";
      if (value.get_ref<const std::string&>().size() <= parameter.most_bytes) return "";
      return name + " may have " + std::to_string(parameter.most_bytes) + " bytes, not " +
             std::to_string(value.get_ref<const std::string&>().size());
    case Type::kNumber: {
      const bool fits = value.is_number_unsigned()
                            ? value.get<uint64_t>() <= static_cast<uint64_t>(parameter.most)
                            : value.is_number_integer();
      if (fits && value.get<int64_t>() >= parameter.least) return "";
      return name + " must be a whole number from " + std::to_string(parameter.least) + " to " +
             std::to_string(parameter.most);
    }
    case Type::kFlag:
      return value.is_boolean() ? "" : name + " must be true or false";
    case Type::kChoice: {
      if (value.is_string() &&
          std::ranges::find(parameter.choices, value.get<std::string>()) != parameter.choices.end())
        return "";
      std::string choices;
      for (const std::string& each : parameter.choices) {
        choices += (choices.empty() ? "" : " or ") + each;
      }
      return name + " must be " + choices;
    }
  }
  return "";
}

// All that is wrong with the arguments; "" if nothing is.
std::string Problems(const Tool& tool, const Json& arguments) {
  if (!arguments.is_object()) return "arguments must be an object";
  std::string problems;
  const auto add = [&problems](const std::string& problem) {
    if (!problem.empty()) problems += (problems.empty() ? "" : "; ") + problem;
  };
  std::vector<std::string_view> known;
  for (const Parameter& each : tool.parameters) {
    known.emplace_back(each.name);
    if (arguments.contains(each.name)) {
      add(ProblemOf(each, arguments[each.name]));
    } else if (each.required) {
      add(std::string(each.name) + " is missing");
    }
  }
  for (const auto& [name, value] : arguments.items()) {
    if (std::ranges::find(known, name) != known.end()) continue;
    const std::string nearest(core::NearestName(name, known));
    add("there is no argument " + name.substr(0, kMostOfName) +
        (nearest.empty() ? "" : "; did you mean " + nearest + "?"));
  }
  if (arguments.contains("rank") && arguments.contains("machine")) {
    add("give rank or machine, not both");
  }
  return problems;
}

}  // namespace

OrderedJson ListTools(const ToolOptions& options) {
  OrderedJson tools = OrderedJson::array();
  for (const Tool& tool : Tools()) {
    if (tool.writes && !options.allow_write) continue;
    tools.push_back({{"name", tool.name},
                     {"title", tool.title},
                     {"description", tool.description},
                     {"inputSchema", SchemaOf(tool)},
                     {"annotations",
                      {{"title", tool.title},
                       {"readOnlyHint", !tool.writes},
                       {"destructiveHint", tool.destroys},
                       {"idempotentHint", !tool.writes},
                       {"openWorldHint", false}}}});
  }
  return tools;
}

bool IsTool(std::string_view name, const ToolOptions& options) {
  return Find(name, options) != nullptr;
}

Result<std::vector<Command>> CommandsOf(std::string_view tool, const Json& arguments,
                                        const ToolOptions& options) {
  const Tool* found = Find(tool, options);
  if (found == nullptr) return Error::NotFound("there is no tool " + std::string(tool));
  const std::string problems = Problems(*found, arguments);
  if (!problems.empty()) return Error::Invalid(std::string(tool) + ": " + problems);
  return found->commands(Words(arguments, options));
}

}  // namespace lockstep::cli::mcp
