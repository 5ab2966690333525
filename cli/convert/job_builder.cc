#include "cli/convert/job_builder.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/model/json.h"
#include "core/model/parse.h"
#include "core/model/shortcuts.h"
#include "core/plan/environment.h"
#include "core/text/limited_text.h"
#include "core/validate/validate.h"

namespace lockstep::convert {
namespace {

constexpr size_t kCommentWidth = 98;
constexpr size_t kMostRemarks = 200;

// `text` as comment lines, broken between words.
std::string Comment(std::string_view text) {
  std::string comment;
  std::string line = "#";
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of(" \n"), text.size());
    if (line.size() + 1 + end > kCommentWidth && line.size() > 3) {
      comment += line + "\n";
      line = "#  ";
    }
    line += " " + std::string(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return comment + line + "\n";
}

}  // namespace

void JobBuilder::Error(std::string path, Position position, std::string message) {
  if (position.line == 0) position = here_;
  problems_.push_back({.path = std::move(path),
                       .line = position.line,
                       .column = position.column,
                       .message = std::move(message)});
}

std::string JobBuilder::Literal(const std::string& text) const {
  return keeps_references_ ? text : core::EscapeVariables(text);
}

void JobBuilder::SetCommand(const std::vector<std::string>& words) {
  job.spec.command.clear();
  for (const std::string& word : words) job.spec.command.push_back(Literal(word));
}

void JobBuilder::SetEnv(const std::string& name, const std::string& value) {
  std::vector<core::EnvVar>& env = job.spec.env;
  auto entry = std::find_if(env.begin(), env.end(),
                            [&](const core::EnvVar& known) { return known.name == name; });
  if (entry == env.end()) {
    entry = env.emplace(env.end());
    entry->name = name;
  }
  entry->value = Literal(value);
}

void JobBuilder::SetExport(const std::string& name, const std::string& value) {
  if (core::IsReserved(name)) {
    Remark("env " + name + " is not carried over: Lockstep gives each process its own.");
  } else {
    SetEnv(name, value);
  }
}

void JobBuilder::RemarkHostfile(const std::string& file) {
  Warn("the host file " + file +
       " was not read: write numMachines as the number of its hosts, processesPerMachine as the "
       "slots of one.");
}

void JobBuilder::SetMachines(int64_t machines, const std::string& what, Position position) {
  if (machines < 1 || machines > std::numeric_limits<int32_t>::max()) {
    Error(what, position, "must be a number of machines, 1 or more");
    return;
  }
  job.spec.num_machines = static_cast<int32_t>(machines);
}

void JobBuilder::SetProcesses(int64_t processes, const std::string& what, Position position) {
  if (processes < 1 || processes > std::numeric_limits<int32_t>::max()) {
    Error(what, position, "must be a number of processes, 1 or more");
    return;
  }
  job.spec.processes_per_machine = static_cast<int32_t>(processes);
}

void JobBuilder::SetTotal(int64_t processes, int64_t machines, const std::string& what,
                          Position position) {
  SetMachines(machines, "num_machines", position);
  if (machines < 1) return;
  if (processes < 1) {
    Error(what, position, "must be the total number of processes, 1 or more");
  } else if (processes % machines != 0) {
    const int64_t below = processes / machines * machines;
    Error(what, position,
          std::to_string(processes) + " processes cannot be divided evenly among " +
              std::to_string(machines) + " machines; " + what +
              " is the total of all machines: write " +
              (below > 0 ? std::to_string(below) + " or " : "") + std::to_string(below + machines));
  } else {
    SetProcesses(processes / machines, what, position);
  }
}

void JobBuilder::SetSize(const Size& size, const std::string& launcher, Position position) {
  if (!size.total) {
    SetMachines(size.machines.value_or(1), "machines", position);
    SetProcesses(size.per_machine.value_or(1), "processes", position);
    return;
  }
  const std::string total = std::to_string(*size.total);
  std::optional<int64_t> machines = size.machines;
  if (!machines && size.per_machine) {
    if (*size.total % *size.per_machine != 0) {
      Error("processes", position,
            total + " processes cannot be divided evenly, " + std::to_string(*size.per_machine) +
                " to a machine: every machine of a TrainingJob runs the same number");
      return;
    }
    machines = *size.total / *size.per_machine;
  }
  if (!machines) {
    machines = 1;
    if (*size.total > 1) {
      const std::string remark =
          launcher + " says " + total +
          " processes, but not on how many machines: all are on one here. Write numMachines, and "
          "processesPerMachine as the number on each.";
      if (launcher == "srun") {
        Warn(remark);
      } else {
        Remark(remark);
      }
    }
  }
  SetTotal(*size.total, *machines, "processes", position);
}

ConvertResult JobBuilder::Finish() const {
  ConvertResult result;
  result.problems = problems_;
  const std::string yaml = core::ToYaml(job);
  if (!core::HasErrors(problems_)) {
    // What a job may hold at most is asked when it is read.
    std::vector<core::Problem> found = core::ParseYaml(yaml).problems;
    if (!core::HasErrors(found)) {
      core::TrainingJob whole = job;
      if (whole.spec.image.empty()) whole.spec.image = "image";
      found = core::Validate(whole, core::Target::kCluster);
    }
    for (core::Problem& problem : found) {
      if (problem.severity != core::Severity::kError) continue;
      problem.line = problem.column = 0;  // of a file that nobody has
      result.problems.push_back(std::move(problem));
    }
  }
  if (core::HasErrors(result.problems)) return result;
  for (const std::string& warning : warnings_) result.yaml += Comment(core::Printable(warning));
  if (!asks_for_no_gpus_.empty() && !core::AsksForGpus(job.spec)) {
    result.yaml += Comment(asks_for_no_gpus_ +
                           " asks for no GPUs, so this job has none: write "
                           "resourcesPerProcess: {gpu: 1} if each process uses one.");
  }
  const size_t shown = std::min(remarks_.size(), kMostRemarks);
  for (size_t i = 0; i < shown; ++i) result.yaml += Comment(core::Printable(remarks_[i]));
  if (shown < remarks_.size()) {
    result.yaml += Comment(std::to_string(remarks_.size() - shown) + " more remarks are left out.");
  }
  result.yaml += yaml;
  return result;
}

int64_t CountAt(const Node& map, std::string_view key, int64_t standard, JobBuilder& builder) {
  const Node* node = map.Find(key);
  if (node == nullptr || node->IsNull()) return standard;
  const std::optional<int64_t> number =
      node->IsScalar() ? ParseNumber<int64_t>(node->text()) : std::nullopt;
  if (number) return *number;
  builder.Error(std::string(key), node->position(), "must be a whole number");
  return standard;
}

std::string TextAt(const Node& map, std::string_view key) {
  const Node* node = map.Find(key);
  return node == nullptr || node->IsNull() || !node->IsScalar() ? "" : node->text();
}

bool TrueAt(const Node& map, std::string_view key) {
  const Node* node = map.Find(key);
  if (node == nullptr || !node->IsScalar()) return false;
  const std::string& text = node->text();
  return text == "true" || text == "True" || text == "yes" || text == "Yes" || text == "on";
}

bool IsOneOf(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

}  // namespace lockstep::convert
