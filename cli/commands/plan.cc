#include "core/plan/plan.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <iostream>
#include <memory>
#include <string>

#include "base/process/process.h"
#include "base/unique_fd.h"
#include "cli/commands/commands.h"
#include "cli/job/job_file.h"
#include "cli/job/plan_text.h"
#include "cli/machine/computer.h"
#include "cli/say.h"
#include "cli/try_log.h"
#include "core/exit_codes.h"
#include "worker/topology/plan/binding_plan.h"

namespace lockstep::cli {
namespace {

struct PlanOptions {
  std::string file;
  JobFlags flags;
  std::string output = "table";
  bool recommend = false;
  std::string try_log;  // a file of output; "" not asked for
};

// Reads it piece by piece: a log may be larger than memory.
Status ReadInto(TryLog* log, const std::string& path) {
  UniqueFd opened;
  int fd = STDIN_FILENO;
  if (path != "-") {
    opened.reset(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    fd = opened.get();
    if (fd < 0) return ErrnoError("cannot read " + path, errno);
  }
  std::array<char, 64 << 10> buffer;
  while (true) {
    const ssize_t got = read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoError("cannot read " + path, errno);
    if (got == 0) break;
    log->Feed({buffer.data(), static_cast<size_t>(got)});
  }
  log->Finish();
  return {};
}

int TryOutput(const PlanOptions& options) {
  auto patterns = std::make_shared<std::vector<core::CompiledPattern>>();
  if (!options.file.empty()) {
    Result<LoadedJob> loaded =
        LoadJob(options.file, options.flags, core::Target::kLocal, std::nullopt);
    if (!loaded.ok()) {
      Say(loaded.error().message);
      return core::kExitUsage;
    }
    ShowProblems(loaded->problems, loaded->file);
    if (!loaded->ok()) return core::kExitUsage;
    for (const std::string& text : loaded->job.spec.progress.patterns) {
      Result<core::CompiledPattern> pattern = core::CompileUserPattern(text);
      if (pattern.ok()) patterns->push_back(std::move(*pattern));
    }
  }
  TryLog log(patterns);
  const Status read = ReadInto(&log, options.try_log);
  if (!read.ok()) {
    Say(read.error().message);
    return core::kExitUsage;
  }
  if (options.output == "json") {
    std::cout << DumpJson(log.ToJson(), 2) << "\n";
  } else if (options.output == "yaml") {
    std::cout << ToYaml(log.ToJson());
  } else {
    std::cout << log.Text(options.try_log == "-" ? "standard input" : options.try_log);
  }
  return core::kExitSuccess;
}

int Plan(const PlanOptions& options) {
  Result<LoadedJob> loaded =
      LoadJob(options.file, options.flags, core::Target::kLocal, std::nullopt);
  if (!loaded.ok()) {
    Say(loaded.error().message);
    return core::kExitUsage;
  }
  ShowProblems(loaded->problems, loaded->file);
  if (!loaded->ok()) return core::kExitUsage;
  Computer computer = LookAround();
  PlanView view;
  view.job = loaded->job;
  view.plan = core::MakePlan(loaded->job);
  view.recommendation = core::Recommend(loaded->job, computer.cores, computer.gpus);
  topology::BindingRequest request = topology::RequestOf(view.job.spec, OwnEnvironment());
  request.parts = view.job.spec.num_machines;
  view.bindings = topology::PlanComputer(computer.machine, request);
  view.computer = ToString(computer);
  view.ignored = core::IgnoredLocally(loaded->job);
  if (options.recommend) {
    std::cout << RecommendationText(view);
  } else if (options.output == "json") {
    std::cout << DumpJson(PlanJson(view), 2) << "\n";
  } else if (options.output == "yaml") {
    std::cout << ToYaml(PlanJson(view));
  } else {
    std::cout << PlanTable(view);
  }
  return core::kExitSuccess;
}

}  // namespace

void AddPlan(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* command = app.add_subcommand(
      "plan", "Show what each machine and each process of a job would get, and run nothing");
  command->add_option("FILE", options->file, "A TrainingJob in YAML or JSON; - for standard input");
  command->add_option("-m,--machines", options->flags.machines,
                      "Number of machines, instead of spec.numMachines");
  command->add_option("-p,--processes", options->flags.processes,
                      "Processes on each machine, instead of spec.processesPerMachine");
  command->add_option("--framework", options->flags.framework, core::ListFrameworks());
  command->add_option("-o,--output", options->output, "table, json or yaml")
      ->check(CLI::IsMember({"table", "json", "yaml"}))
      ->capture_default_str();
  command->add_flag("--recommend", options->recommend,
                    "Recommend how to split the job on this computer, and why");
  command->add_option("--try-log", options->try_log,
                      "Show which progress an agent finds in this saved output; - for standard "
                      "input");
  command->footer(
      "Examples:\n"
      "  lockstep plan job.yaml\n"
      "  lockstep plan job.yaml -o json\n"
      "  lockstep plan -m 2 -p 4 --recommend -- python train.py\n"
      "  lockstep plan --try-log train.log\n"
      "\n"
      "Shown: ranks and environment, binding on this computer, the equal torchrun and accelerate\n"
      "commands, and the rules by which failures are judged.\n"
      "Exit codes: 0 shown; 2 the job isn't valid.");
  command->callback([options, invocation] {
    options->flags.command = invocation->command;
    if (!options->try_log.empty()) {
      invocation->exit_code = TryOutput(*options);
      return;
    }
    if (options->file.empty() && options->flags.command.empty()) {
      Say("plan: give a FILE, or -- and a command line");
      invocation->exit_code = core::kExitUsage;
      return;
    }
    invocation->exit_code = Plan(*options);
  });
}

}  // namespace lockstep::cli
