#include "cli/job/job_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <filesystem>
#include <iostream>

#include "base/file.h"
#include "base/text/duration.h"
#include "core/model/parse.h"
#include "core/plan/environment.h"
#include "core/text/text.h"

namespace lockstep::cli {
namespace {

constexpr size_t kMaxJobName = 40;

// Writes an enum by its name in a job file.
template <core::NamedEnum E>
void SetEnum(const std::string& name, const char* flag, E* out,
             std::vector<core::Problem>* problems) {
  if (name.empty()) return;
  if (std::optional<E> value = core::ParseEnum<E>(name)) {
    *out = *value;
    return;
  }
  std::string known;
  for (const auto& entry : core::kEnumNames<E>) {
    known += (known.empty() ? "" : ", ") + std::string(entry.name);
  }
  problems->push_back({.path = flag, .found = name, .message = "must be one of " + known});
}

void SetDuration(const std::string& text, const char* flag, Duration* out,
                 std::vector<core::Problem>* problems) {
  if (text.empty()) return;
  Result<Duration> value = ParseDuration(text);
  if (value.ok()) {
    *out = *value;
  } else {
    problems->push_back({.path = flag, .found = text, .message = value.error().message});
  }
}

void SetEnv(const std::string& assignment, std::vector<core::EnvVar>* env,
            std::vector<core::Problem>* problems) {
  size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0) {
    problems->push_back({.path = "--env", .found = assignment, .message = "must be NAME=VALUE"});
    return;
  }
  std::string name = assignment.substr(0, equals);
  std::erase_if(*env, [&](const core::EnvVar& variable) { return variable.name == name; });
  core::EnvVar variable;
  variable.name = std::move(name);
  variable.value = assignment.substr(equals + 1);
  env->push_back(std::move(variable));
}

// Programs that say nothing of what is trained.
bool IsInterpreter(const std::string& program) {
  static constexpr std::array<const char*, 8> kNames = {"python", "sh",   "bash",       "env",
                                                        "uv",     "node", "accelerate", "torchrun"};
  return program.starts_with("python") ||
         std::find(kNames.begin(), kNames.end(), program) != kNames.end();
}

}  // namespace

Result<std::string> ReadTextFile(const std::string& path, size_t limit) {
  if (path == "-") return ReadToEnd(STDIN_FILENO, "standard input", limit);
  struct stat status{};
  if (stat(path.c_str(), &status) != 0 || !S_ISFIFO(status.st_mode)) return ReadFile(path, limit);
  // What a shell makes of <(...); the user waits for it.
  const UniqueFd pipe(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!pipe.valid()) return ErrnoError("opening " + path, errno);
  return ReadToEnd(pipe.get(), path, limit);
}

std::string NameFromCommand(const std::vector<std::string>& command) {
  std::string source;
  for (const std::string& argument : command) {
    std::string stem = std::filesystem::path(argument).stem().string();
    if (argument.starts_with("-") || stem.empty() || IsInterpreter(stem)) continue;
    source = stem;
    break;
  }
  std::string name;
  for (char c : source) {
    auto byte = static_cast<unsigned char>(c);
    bool alphanumeric = byte < 128 && std::isalnum(byte) != 0;
    if (alphanumeric) {
      name += static_cast<char>(std::tolower(byte));
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
    if (name.size() == kMaxJobName) break;
  }
  while (!name.empty() && (name.back() == '-')) name.pop_back();
  if (name.empty() || std::isalpha(static_cast<unsigned char>(name.front())) == 0) return "job";
  return name;
}

std::vector<core::Problem> ApplyFlags(const JobFlags& flags, core::TrainingJob* job) {
  std::vector<core::Problem> problems;
  core::Spec& spec = job->spec;
  if (flags.machines) spec.num_machines = *flags.machines;
  if (flags.processes) spec.processes_per_machine = *flags.processes;
  if (flags.spares) spec.spare_machines = *flags.spares;
  if (!flags.command.empty()) {
    spec.command = core::FromShell(flags.command);
    spec.args.clear();
    spec.trainer.reset();
  }
  SetEnum(flags.framework, "--framework", &spec.framework, &problems);
  SetEnum(flags.launch, "--launch", &spec.launch, &problems);
  SetEnum(flags.bind, "--bind", &spec.topology.bind, &problems);
  SetEnum(flags.prestart, "--prestart", &spec.prestart, &problems);
  SetEnum(flags.console, "--console", &spec.logs.console, &problems);
  if (!flags.logs.empty()) spec.logs.path = flags.logs;
  if (!flags.checkpoint.empty()) spec.checkpoint.path = flags.checkpoint;
  if (!flags.checkpoint_url.empty()) spec.checkpoint.url = flags.checkpoint_url;
  if (!flags.resume.empty()) spec.checkpoint.resume = flags.resume;
  if (flags.max_restarts) spec.failure_policy.max_restarts = *flags.max_restarts;
  if (flags.max_machine_replacements) {
    spec.failure_policy.max_machine_replacements = *flags.max_machine_replacements;
  }
  if (flags.deadline_seconds) spec.active_deadline_seconds = *flags.deadline_seconds;
  SetDuration(flags.grace_period, "--grace-period", &spec.grace_period, &problems);
  SetDuration(flags.hang_timeout, "--hang-timeout", &spec.health.hang_timeout, &problems);
  for (const std::string& assignment : flags.env) SetEnv(assignment, &spec.env, &problems);
  if (!flags.name.empty()) job->metadata.name = flags.name;
  return problems;
}

Result<LoadedJob> LoadJob(const std::string& file, const JobFlags& flags, core::Target target,
                          std::optional<int> gpus) {
  LoadedJob loaded;
  loaded.file = file.empty() ? "command line" : file;
  if (!file.empty()) {
    Result<std::string> text = ReadTextFile(file, core::kMaxDocumentBytes);
    if (!text.ok()) return text.error();
    core::ParseResult parsed =
        file.ends_with(".json") ? core::ParseJson(*text) : core::ParseYaml(*text);
    loaded.problems = std::move(parsed.problems);
    if (!parsed.job) return loaded;
    loaded.job = std::move(*parsed.job);
  }
  std::vector<core::Problem> of_flags = ApplyFlags(flags, &loaded.job);
  // The API server takes no job without a name.
  std::string& name = loaded.job.metadata.name;
  if (name.empty() && target == core::Target::kLocal) {
    name = NameFromCommand(loaded.job.spec.command);
  }
  core::AddProblems(core::Validate(loaded.job, target, gpus), &loaded.problems);
  loaded.problems.insert(loaded.problems.end(), of_flags.begin(), of_flags.end());
  return loaded;
}

void ShowProblems(const std::vector<core::Problem>& problems, const std::string& file) {
  if (problems.empty()) return;
  std::cerr << core::Format(problems, file);
  auto errors = std::count_if(problems.begin(), problems.end(), [](const core::Problem& problem) {
    return problem.severity == core::Severity::kError;
  });
  if (errors > 0) {
    std::cerr << file << ": " << errors << (errors == 1 ? " error" : " errors") << "\n";
  }
}

}  // namespace lockstep::cli
