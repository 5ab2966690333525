#include "core/plan/plan.h"

#include <iostream>
#include <memory>
#include <string>

#include "base/process.h"
#include "cli/commands/commands.h"
#include "cli/job/job_file.h"
#include "cli/job/plan_text.h"
#include "cli/machine/computer.h"
#include "cli/say.h"
#include "core/exit_codes.h"
#include "worker/topology/plan/binding_plan.h"

namespace lockstep::cli {
namespace {

struct PlanOptions {
  std::string file;
  JobFlags flags;
  std::string output = "table";
  bool recommend = false;
};

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
  command->add_option("-m,--machines", options->flags.machines, "Instead of spec.numMachines");
  command->add_option("-p,--processes", options->flags.processes,
                      "Instead of spec.processesPerMachine");
  command->add_option("--framework", options->flags.framework,
                      "Torch, Accelerate, Jax, TensorFlow, Mpi, Horovod or None");
  command->add_option("-o,--output", options->output, "table, json or yaml")
      ->check(CLI::IsMember({"table", "json", "yaml"}))
      ->capture_default_str();
  command->add_flag("--recommend", options->recommend,
                    "Say how to split the job on this computer, and why");
  command->footer(
      "Examples:\n"
      "  lockstep plan job.yaml\n"
      "  lockstep plan job.yaml -o json\n"
      "  lockstep plan -m 2 -p 4 --recommend -- python train.py\n"
      "\n"
      "Shown: ranks and environment, binding on this computer, the equal torchrun and accelerate\n"
      "commands, and the rules by which failures are judged.\n"
      "Exit codes: 0 shown; 2 the job isn't valid.");
  command->callback([options, invocation] {
    options->flags.command = invocation->command;
    if (options->file.empty() && options->flags.command.empty()) {
      Say("plan: give a FILE, or -- and a command line");
      invocation->exit_code = core::kExitUsage;
      return;
    }
    invocation->exit_code = Plan(*options);
  });
}

}  // namespace lockstep::cli
