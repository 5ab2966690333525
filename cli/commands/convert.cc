#include "cli/convert/convert.h"

#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/job/job_file.h"
#include "cli/say.h"
#include "core/exit_codes.h"
#include "core/text/problem.h"
#include "core/text/text.h"

namespace lockstep::cli {
namespace {

struct ConvertOptions {
  std::string file;
  std::vector<std::string> command;
};

Result<std::string> ReadDocument(const std::string& path) {
  return ReadTextFile(path, core::kMaxDocumentBytes);
}

Result<convert::ConvertResult> ConvertFile(const std::string& file) {
  Result<std::string> text = ReadDocument(file);
  if (!text.ok()) return text.error();
  return convert::Convert(*text, ReadDocument);
}

int Convert(const ConvertOptions& options) {
  if (options.file.empty() == options.command.empty()) {
    Say("convert: give a FILE, or -- and a command line");
    return core::kExitUsage;
  }
  bool of_file = options.command.empty();
  Result<convert::ConvertResult> converted =
      of_file ? ConvertFile(options.file) : convert::Convert(options.command, ReadDocument);
  if (!converted.ok()) {
    Say("convert: " + converted.error().message);
    return core::kExitUsage;
  }
  ShowProblems(converted->problems, of_file ? options.file : "command line");
  if (core::HasErrors(converted->problems)) return core::kExitUsage;
  std::cout << converted->yaml;
  return core::kExitSuccess;
}

}  // namespace

void AddConvert(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<ConvertOptions>();
  CLI::App* command = app.add_subcommand(
      "convert", "Write another launcher's job as a TrainingJob, on standard output");
  command->add_option(
      "FILE", options->file,
      "An `accelerate config` YAML, an sbatch script, a Kubeflow PyTorchJob, TrainJob, "
      "MPIJob, TFJob or JAXJob, a RayJob; - for standard input");
  command->footer(
      "Examples:\n"
      "  lockstep convert default_config.yaml > job.yaml\n"
      "  lockstep convert train.sbatch > job.yaml\n"
      "  lockstep convert -- torchrun --nnodes 2 --nproc-per-node 4 train.py > job.yaml\n"
      "\n"
      "What could not be converted is a comment in the result.\n"
      "Exit codes: 0 converted; 2 the input cannot be converted.");
  command->callback([options, invocation] {
    options->command = invocation->command;
    invocation->exit_code = Convert(*options);
  });
}

}  // namespace lockstep::cli
