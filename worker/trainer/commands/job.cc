#include <memory>

#include "core/plan/trainer_command.h"
#include "worker/trainer/commands/commands.h"
#include "worker/trainer/run/exit_code.h"
#include "worker/trainer/run/generate.h"
#include "worker/trainer/run/train.h"

namespace lockstep::trainer {

namespace {

int RunJob(const std::string& json) {
  const Result<core::Trainer> job = core::ParseTrainer(json);
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
  return Generate(options);
}

}  // namespace

void AddJob(CLI::App& app, int* exit_code) {
  auto json = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("job", "Do what spec.trainer of a job says: what each of its ranks runs");
  command->add_option("trainer", *json, "spec.trainer as JSON, as `lockstep plan` shows it")
      ->required();
  command->callback([json, exit_code] { *exit_code = RunJob(*json); });
}

}  // namespace lockstep::trainer
