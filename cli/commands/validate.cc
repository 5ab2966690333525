#include <iostream>
#include <memory>

#include "cli/commands/commands.h"
#include "cli/job/job_file.h"
#include "cli/say.h"
#include "core/exit_codes.h"
#include "core/model/spec.h"
#include "core/text/limited_text.h"

namespace lockstep::cli {
namespace {

struct ValidateOptions {
  std::string file;
  std::string target = "cluster";
  bool quiet = false;
};

int Validate(const ValidateOptions& options) {
  core::Target target = options.target == "local" ? core::Target::kLocal : core::Target::kCluster;
  Result<LoadedJob> loaded = LoadJob(options.file, {}, target, std::nullopt);
  if (!loaded.ok()) {
    Say(loaded.error().message);
    return core::kExitUsage;
  }
  ShowProblems(loaded->problems, loaded->file);
  if (!loaded->ok()) return core::kExitUsage;
  if (!options.quiet) {
    const core::Spec& spec = loaded->job.spec;
    std::cout << core::Printable(options.file + ": valid: " + loaded->job.metadata.name) << ", "
              << spec.num_machines << (spec.num_machines == 1 ? " machine" : " machines") << " x "
              << spec.processes_per_machine << " = world size " << core::WorldSize(spec) << "\n";
    std::string ignored = core::IgnoredLocally(loaded->job);
    if (target == core::Target::kLocal && !ignored.empty()) {
      std::cout << options.file << ": ignored by `lockstep run`: " << ignored << "\n";
    }
  }
  return core::kExitSuccess;
}

}  // namespace

void AddValidate(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<ValidateOptions>();
  CLI::App* command =
      app.add_subcommand("validate", "Report every error of a job with its line and column");
  command->add_option("FILE", options->file, "A TrainingJob in YAML or JSON; - for standard input")
      ->required();
  command
      ->add_option("--target", options->target,
                   "Where the job runs; a cluster needs an image, `lockstep run` doesn't")
      ->check(CLI::IsMember({"local", "cluster"}))
      ->capture_default_str();
  command->add_flag("-q,--quiet", options->quiet, "Print nothing about a valid job");
  command->footer("Exit codes: 0 valid, perhaps with warnings; 2 not valid.");
  command->callback([options, invocation] { invocation->exit_code = Validate(*options); });
}

}  // namespace lockstep::cli
