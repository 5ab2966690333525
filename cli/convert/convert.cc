#include "cli/convert/convert.h"

#include <algorithm>

#include "cli/convert/job_builder.h"
#include "core/plan/environment.h"
#include "core/plan/launcher.h"
#include "core/text/text.h"

namespace lockstep::convert {
namespace {

ConvertResult Refuse(std::string message) {
  ConvertResult result;
  result.problems.push_back({.message = std::move(message)});
  return result;
}

constexpr const char* kWhatIsTaken =
    "torchrun, accelerate launch, python -m torch.distributed.run, python -m "
    "torch.distributed.launch or python -m accelerate.commands.launch";

bool IsAssignment(const std::string& word) {
  const size_t equals = word.find('=');
  return equals != std::string::npos && equals > 0 && word[0] != '-';
}

// Takes `A=b C=d` and `env` off the front, as the job's env.
std::vector<std::string> TakeEnvironment(const std::vector<std::string>& command,
                                         JobBuilder& builder) {
  auto word = command.begin();
  if (word != command.end() && *word == "env") ++word;
  for (; word != command.end() && IsAssignment(*word); ++word) {
    const size_t equals = word->find('=');
    builder.SetEnv(word->substr(0, equals), word->substr(equals + 1));
  }
  return {word, command.end()};
}

// The launcher's own arguments: what stands behind `torchrun`, `accelerate launch` or `-m MODULE`.
std::vector<std::string> LauncherArguments(const std::vector<std::string>& command,
                                           const std::string& launcher) {
  auto first = command.begin() + 1;
  if (core::IsPython(command[0])) {
    first = std::find(command.begin(), command.end(), "-m") + 2;
    // python -m accelerate.commands.accelerate_cli launch
    if (*(first - 1) == "accelerate.commands.accelerate_cli" && first != command.end()) ++first;
  } else if (launcher == "accelerate launch") {
    ++first;
  }
  return {first, command.end()};
}

}  // namespace

ConvertResult Convert(std::string_view text) {
  const core::Document document = core::ReadYaml(text);
  if (!document.root) return {.yaml = {}, .problems = document.problems};
  const Node& root = *document.root;
  JobBuilder builder;
  const std::string kind = TextAt(root, "kind");
  if (kind == "PyTorchJob") {
    ConvertPyTorchJob(root, builder);
  } else if (kind == "TrainJob") {
    ConvertTrainJob(root, builder);
  } else if (root.Find("distributed_type") != nullptr ||
             root.Find("compute_environment") != nullptr) {
    ConvertAccelerateConfig(root, true, builder);
    builder.Remark("A configuration names no program: write yours as spec.command.");
    builder.job.spec.command = {"python", "train.py"};
  } else {
    return Refuse(
        "this is no accelerate configuration (distributed_type), no PyTorchJob and no "
        "TrainJob (kind); nothing else can be converted");
  }
  return builder.Finish();
}

ConvertResult Convert(const std::vector<std::string>& command, std::string_view accelerate_config) {
  JobBuilder builder;
  const std::vector<std::string> rest = TakeEnvironment(core::FromShell(command), builder);
  const std::string launcher = core::LauncherOf(rest);
  if (rest.empty() || (launcher != "torchrun" && launcher != "accelerate launch")) {
    return Refuse(std::string("the command is none that can be converted; write ") + kWhatIsTaken);
  }
  const bool direct =
      core::IsPython(rest[0]) || rest[0].ends_with("torchrun") || rest[0].ends_with("accelerate");
  if (!direct) {
    return Refuse("the launcher stands inside a shell's script; write its command line itself");
  }
  const std::string python = core::IsPython(rest[0]) ? rest[0] : "python";
  const std::vector<std::string> arguments = LauncherArguments(rest, launcher);
  if (launcher == "torchrun") {
    ConvertTorchrun(arguments, python, builder);
    return builder.Finish();
  }
  if (accelerate_config.empty()) {
    ConvertAccelerateLaunch(arguments, python, nullptr, builder);
    return builder.Finish();
  }
  const core::Document config = core::ReadYaml(accelerate_config);
  if (!config.root) return {.yaml = {}, .problems = config.problems};
  ConvertAccelerateLaunch(arguments, python, &*config.root, builder);
  return builder.Finish();
}

}  // namespace lockstep::convert
