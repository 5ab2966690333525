#include "cli/convert/convert.h"

#include <algorithm>
#include <array>
#include <utility>

#include "cli/convert/job_builder.h"
#include "cli/convert/script.h"
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
    "torchrun, accelerate launch, deepspeed, mpirun, mpiexec, horovodrun, srun, or python -m with "
    "torch.distributed.run, torch.distributed.launch or accelerate.commands.launch";

// Takes `A=b C=d` and `env` off the front, as the job's env.
std::vector<std::string> TakeEnvironment(const std::vector<std::string>& command,
                                         JobBuilder& builder) {
  auto word = command.begin();
  if (word != command.end() && *word == "env") ++word;
  for (; word != command.end() && AssignedName(*word) > 0; ++word) {
    const size_t equals = AssignedName(*word);
    builder.SetExport(word->substr(0, equals), word->substr(equals + 1));
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

using KindConverter = void (*)(const Node& document, JobBuilder& builder);
constexpr std::array<std::pair<std::string_view, KindConverter>, 6> kKinds = {{
    {"PyTorchJob", ConvertPyTorchJob},
    {"TrainJob", ConvertTrainJob},
    {"MPIJob", ConvertMpiJob},
    {"TFJob", ConvertTfJob},
    {"JAXJob", ConvertJaxJob},
    {"RayJob", ConvertRayJob},
}};

}  // namespace

bool ConvertLauncher(const std::vector<std::string>& command, const Size& size,
                     const FileReader& read, JobBuilder& builder) {
  const std::string launcher = core::LauncherOf(command);
  if (launcher.empty() || launcher == "srun") return false;
  const bool is_python = core::IsPython(command[0]);
  const std::string_view program = core::BaseName(command[0]);
  if (!is_python && program != launcher && program != "accelerate") return false;
  const std::string python = is_python ? command[0] : "python";
  const std::vector<std::string> arguments = LauncherArguments(command, launcher);
  if (launcher == "torchrun") {
    const auto its_arguments = command.end() - static_cast<std::ptrdiff_t>(arguments.size());
    const bool is_old =
        std::find(command.begin(), its_arguments, "torch.distributed.launch") != its_arguments;
    ConvertTorchrun(arguments, python, size, is_old, builder);
  } else if (launcher.starts_with("accelerate")) {
    ConvertAccelerateLaunch(arguments, python, read, builder);
  } else if (launcher == "deepspeed") {
    ConvertDeepSpeed(arguments, python, size, builder);
  } else if (launcher == "horovodrun") {
    ConvertHorovodrun(arguments, size, builder);
  } else if (core::IsMpirun(launcher)) {
    ConvertMpirun(command[0], arguments, size, builder);
  } else {
    return false;
  }
  return true;
}

ConvertResult Convert(std::string_view text, const FileReader& read) {
  if (auto problem = core::CheckText(text)) return {.yaml = {}, .problems = {std::move(*problem)}};
  JobBuilder builder;
  if (IsSbatch(text)) {
    ConvertSbatch(text, read, builder);
    return builder.Finish();
  }
  const core::Document document = core::ReadYaml(text);
  if (!document.root) return {.yaml = {}, .problems = document.problems};
  const Node& root = *document.root;
  const std::string kind = TextAt(root, "kind");
  const auto* known = std::find_if(kKinds.begin(), kKinds.end(),
                                   [&](const auto& each) { return each.first == kind; });
  if (known != kKinds.end()) {
    known->second(root, builder);
  } else if (root.Find("distributed_type") != nullptr ||
             root.Find("compute_environment") != nullptr) {
    ConvertAccelerateConfig({.whole = root, .file = &root}, builder);
    builder.Remark("A configuration names no program: write yours as spec.command.");
    builder.SetCommand({"python", "train.py"});
  } else {
    return Refuse(
        "this is not an accelerate configuration (distributed_type), a batch script (#SBATCH) or "
        "one of PyTorchJob, TrainJob, MPIJob, TFJob, JAXJob and RayJob; nothing else can be "
        "converted");
  }
  return builder.Finish();
}

ConvertResult Convert(const std::vector<std::string>& command, const FileReader& read) {
  for (const std::string& word : command) {
    if (auto problem = core::CheckText(word)) {
      return {.yaml = {}, .problems = {std::move(*problem)}};
    }
  }
  JobBuilder builder;
  const std::vector<std::string> rest = TakeEnvironment(command, builder);
  const std::string launcher = core::LauncherOf(rest);
  if (launcher.empty()) {
    return Refuse(std::string("this command cannot be converted; write ") + kWhatIsTaken);
  }
  if (launcher == "srun" && core::BaseName(rest[0]) == "srun") {
    ConvertSrun(rest, read, builder);
    return builder.Finish();
  }
  if (!ConvertLauncher(rest, {}, read, builder)) {
    return Refuse(launcher + " follows another program or is inside a shell script; write " +
                  kWhatIsTaken + " first");
  }
  return builder.Finish();
}

}  // namespace lockstep::convert
