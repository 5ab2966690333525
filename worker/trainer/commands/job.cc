#include <memory>

#include "core/plan/trainer_command.h"
#include "core/validate/validate.h"
#include "worker/trainer/collectives/group/connect.h"
#include "worker/trainer/commands/commands.h"
#include "worker/trainer/generate/generate.h"
#include "worker/trainer/process/exit_code.h"
#include "worker/trainer/run/train.h"

namespace lockstep::trainer {

namespace {

// What a job says was validated before; what is written by hand is validated here.
Result<core::Trainer> ReadJob(const std::string& json) {
  Result<core::Trainer> trainer = core::ParseTrainer(json);
  if (!trainer.ok()) return trainer;
  const Result<collectives::Options> launch = collectives::OptionsFromEnvironment();
  if (!launch.ok()) return launch.error();
  core::TrainingJob job;
  job.spec.trainer = *trainer;
  job.spec.num_machines = launch->world;
  for (const core::Problem& problem : core::Validate(job, core::Target::kLocal)) {
    if (problem.severity != core::Severity::kError) continue;
    if (!problem.path.starts_with("spec.trainer")) continue;  // of a job there is nothing else
    return Error::Invalid(problem.path + ": " + problem.message);
  }
  return trainer;
}

int RunJob(const std::string& json) {
  const Result<core::Trainer> job = ReadJob(json);
  if (!job.ok()) {
    Complain(job.error());
    return ExitCodeOf(job.error());
  }
  if (job->mode == core::TrainerMode::kTrain) {
    TrainOptions options;
    options.job = *job;
    return Train(options);
  }
  GenerateOptions options;
  options.files = job->prompts;
  options.seed = job->seed;
  options.device = job->device;
  return Generate(options);
}

}  // namespace

void AddJob(CLI::App& app, int* exit_code) {
  auto json = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("job", "Run spec.trainer of a job, as each of its ranks does");
  command->add_option("trainer", *json, "spec.trainer as JSON, as `lockstep plan` shows it")
      ->required();
  command->callback([json, exit_code] { *exit_code = RunJob(*json); });
}

}  // namespace lockstep::trainer
