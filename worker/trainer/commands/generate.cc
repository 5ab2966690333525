#include "worker/trainer/generate/generate.h"

#include <memory>

#include "worker/trainer/commands/commands.h"

namespace lockstep::trainer {

void AddGenerate(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<GenerateOptions>();
  CLI::App* command = app.add_subcommand("generate", "Continue prompts with a trained model");
  command->option_defaults()->always_capture_default();
  command->add_option("--prompt", options->prompts, "a text to continue; repeatable");
  command->add_option(
      "--prompts", options->files,
      "globs of files with one prompt a line; the ranks of a job share the prompts");
  command->add_option("--checkpoint", options->checkpoint,
                      "folder of a model (the job's checkpoint.resume)");
  command->add_option("--checkpoint-dir", options->checkpoint_dir,
                      "folder of checkpoints; the newest is used");
  command->add_option("--tokens", options->tokens, "bytes to add to each prompt")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--temperature", options->sample.temperature,
                   "temperature of sampling; 0: always the likeliest")
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option("--top-k", options->sample.top_k,
                   "sample from the likeliest K only (0: from all)")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--seed", options->seed, "seed of the sampling");
  command->add_option("--output", options->output, "file for the results (standard output)");
  command->add_flag("--json", options->json,
                    "print a line of JSON for each prompt; always with --prompts");
  AddChoice(command, "--device", options->device, "device: auto uses a GPU if it can");
  command->add_option("--threads", options->threads, "0: OMP_NUM_THREADS, else all cores")
      ->check(CLI::NonNegativeNumber);
  command->callback([options, exit_code] { *exit_code = Generate(*options); });
}

}  // namespace lockstep::trainer
