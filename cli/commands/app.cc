#include "cli/commands/app.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/commands/complete.h"
#include "cli/commands/misread.h"
#include "cli/programs/known_jobs.h"
#include "cli/say.h"
#include "core/exit_codes.h"
#include "core/text/problem.h"

namespace lockstep::cli {
namespace {

constexpr const char* kDescription =
    "Runs a distributed training job as one unit: all processes start together, fail together\n"
    "and restart together, in milliseconds.";

constexpr const char* kFooter =
    "Examples:\n"
    "  lockstep run -m 2 -p 2 -- python train.py     two machines of two processes, here\n"
    "  lockstep run job.yaml --report run.json       the job of a file, with a report\n"
    "  lockstep plan job.yaml                        what each process would get\n"
    "  lockstep submit job.yaml; lockstep status gpt; lockstep logs gpt -f --rank 3\n"
    "                                                the same file on a cluster\n"
    "  lockstep convert -- torchrun --nproc-per-node 4 train.py > job.yaml\n"
    "\n"
    "Exit codes: 0 success; 2 wrong usage or an invalid job; the failed process's own code\n"
    "(128 + signal) when a job failed. The help of each command lists its codes.";

// What other tools call a command of this one.
struct OtherName {
  std::string_view name;
  std::string_view command;
};
constexpr std::array<OtherName, 11> kOtherNames = {{
    {"numa", "topology"},
    {"check", "validate"},
    {"start", "run"},
    {"launch", "run"},
    {"apply", "submit"},
    {"create", "submit"},
    {"get", "list"},
    {"ls", "list"},
    {"ps", "list"},
    {"describe", "status"},
    {"rm", "delete"},
}};

std::string NearestCommand(const std::string& name, const std::vector<std::string_view>& known) {
  for (const OtherName& other : kOtherNames) {
    if (other.name == name) return std::string(other.command);
  }
  return std::string(core::NearestName(name, known));
}

// Empty when a command that exists stands first, an option, or nothing at all.
std::string WrongCommand(const CLI::App& app, const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments[0].starts_with('-')) return {};
  std::vector<std::string_view> known;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->check_name(arguments[0])) return {};
    if (!IsHidden(*command)) known.push_back(command->get_name());
  }
  std::string message = "unknown command \"" + arguments[0] + "\"; ";
  const std::string nearest = NearestCommand(arguments[0], known);
  if (!nearest.empty()) return message + "did you mean \"lockstep " + nearest + "\"?";
  message += "there are";
  for (const std::string_view name : known) {
    message += (name == known.front() ? " " : ", ") + std::string(name);
  }
  return message;
}

// kubectl takes its options before a command, too: `-n ns status gpt` is `status -n ns gpt`. And
// `help run` is `run --help`.
void PutCommandFirst(std::vector<std::string>& words) {
  const size_t options = OptionsBeforeCommand(words);
  if (options < words.size() && !words[options].starts_with('-')) {
    std::rotate(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(options),
                words.begin() + static_cast<std::ptrdiff_t>(options) + 1);
  }
  if (!words.empty() && words[0] == "help") {
    words.erase(words.begin());
    words.emplace_back("--help");
  }
}

// What is lost on a full disk, as of `lockstep convert > job.yaml`, was no success.
int AfterOutput(int exit_code) {
  std::cout.flush();
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good();
  if (written || exit_code != core::kExitSuccess) return exit_code;
  Say(std::string("cannot write to standard output: ") + std::strerror(errno));
  return core::kExitTrouble;
}

}  // namespace

std::unique_ptr<CLI::App> MakeApp(Invocation* invocation) {
  auto app = std::make_unique<CLI::App>(kDescription, "lockstep");
  app->footer(kFooter);
  app->require_subcommand(1);
  app->get_formatter()->column_width(34);
  app->set_version_flag("-V,--version", std::string("lockstep ") + kVersion, "Print the version");
  AddRun(*app, invocation);
  AddValidate(*app, invocation);
  AddPlan(*app, invocation);
  AddTune(*app, invocation);
  AddConvert(*app, invocation);
  AddTopology(*app, invocation);
  AddUi(*app, invocation);
  AddBench(*app, invocation);
  AddClusterCommands(*app, invocation);
  AddMcp(*app, invocation);
  AddCompletion(*app, invocation);
  AddMan(*app, invocation);
  AddVersion(*app, invocation);
  return app;
}

int Main(int argc, char** argv, RunOnCluster on_cluster) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  Invocation invocation;
  invocation.of_kubectl = std::string_view(argv[0]).ends_with("kubectl-lockstep");
  invocation.words = arguments;
  invocation.on_cluster = std::move(on_cluster);
  if (dashes != arguments.end()) invocation.command.assign(dashes + 1, arguments.end());
  std::unique_ptr<CLI::App> app = MakeApp(&invocation);
  if (!arguments.empty() && arguments[0] == kCompleteCommand) {
    const std::vector<std::string> words(arguments.begin() + 1, arguments.end());
    std::cout << ToText(Complete(*app, words, RunsHere, JobsOfCluster));
    return AfterOutput(core::kExitSuccess);
  }
  std::vector<std::string> own(arguments.begin(), dashes);
  PutCommandFirst(own);
  const std::string wrong = WrongCommand(*app, own);
  if (!wrong.empty()) {
    Say(wrong);
    return core::kExitUsage;
  }
  std::ranges::reverse(own);  // CLI11 takes a vector from its end
  try {
    app->parse(own);
  } catch (const CLI::ExtrasError& error) {
    const std::string advice = AdviceOnWords(*app, {arguments.begin(), dashes});
    if (advice.empty()) return app->exit(error) == 0 ? core::kExitSuccess : core::kExitUsage;
    Say(advice);
    return core::kExitUsage;
  } catch (const CLI::ParseError& error) {
    return AfterOutput(app->exit(error) == 0 ? core::kExitSuccess : core::kExitUsage);
  } catch (const std::exception& error) {
    Say(error.what());
    return core::kExitTrouble;
  }
  return AfterOutput(invocation.exit_code);
}

}  // namespace lockstep::cli
