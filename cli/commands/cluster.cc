// The options of the commands on clusters. The program that runs the App carries them out.
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "cli/cluster_command.h"
#include "cli/commands/commands.h"
#include "cli/programs/evidence.h"
#include "cli/run/restart.h"
#include "cli/say.h"
#include "core/exit_codes.h"

namespace lockstep::cli {
namespace {

constexpr const char* kExitCodes =
    "Exit codes: 0 done; 1 the cluster refused or could not be reached; 2 wrong usage or an "
    "invalid\n"
    "job; 3 there is no such job, or no TrainingJobs in this cluster.";

std::optional<int> DoHere(const DebugCommand& command) { return DebugHere(command); }
std::optional<int> DoHere(const RestartCommand& command) { return RestartHere(command); }

// Adds the command; `what` is where its options are parsed to.
template <typename What>
CLI::App* Add(CLI::App& app, Invocation* invocation, const std::string& name,
              const std::string& description, std::shared_ptr<What> what) {
  CLI::App* command = app.add_subcommand(name, description);
  const std::shared_ptr<ClusterAddress> where = AddClusterAddress(command);
  command->footer(kExitCodes);
  command->callback([where, what = std::move(what), invocation] {
    if constexpr (std::is_same_v<What, DebugCommand> || std::is_same_v<What, RestartCommand>) {
      if (invocation->of_kubectl && what->name.empty()) {
        Say("NAME is missing: name a TrainingJob");
        invocation->exit_code = core::kExitUsage;
        return;
      }
      const bool no_cluster =
          where->kubeconfig.empty() && where->context.empty() && where->name_space.empty();
      const bool here = what->name.empty() || (no_cluster && !invocation->of_kubectl);
      const std::optional<int> code = here ? DoHere(*what) : std::nullopt;
      if (code) {
        invocation->exit_code = *code;
        return;
      }
    }
    const bool here_first = !invocation->of_kubectl && where->kubeconfig.empty() &&
                            where->context.empty() && where->name_space.empty();
    invocation->exit_code = invocation->on_cluster({*where, *what, here_first});
  });
  return command;
}

void AddName(CLI::App* command, std::string& name) {
  command->add_option("NAME", name, "Name of the TrainingJob")->required();
}

void AddNameHere(CLI::App* command, std::string& name) {
  command->add_option("NAME", name, "A run on this computer, else a TrainingJob")->required();
}

void AddSubmit(CLI::App& app, Invocation* invocation) {
  auto what = std::make_shared<SubmitCommand>();
  CLI::App* command =
      Add(app, invocation, "submit", "Validate jobs and create them on a cluster", what);
  command->add_option("FILE", what->files, "TrainingJobs in YAML or JSON; - for standard input")
      ->required();
  command->add_flag("--replace", what->replace,
                    "Delete a job of that name first, and wait until its pods are gone");
  command->add_flag("--dry-run", what->dry_run,
                    "Let the API server check the jobs, and create none");
}

void AddList(CLI::App& app, Invocation* invocation) {
  auto what = std::make_shared<ListCommand>();
  CLI::App* command = Add(app, invocation, "list", "Show the jobs of a cluster", what);
  CLI::Option* all = command->add_flag("-A,--all-namespaces", what->all_namespaces,
                                       "Show the jobs of all namespaces");
  command->add_flag("--here", what->here, "Show the runs on this computer instead")->excludes(all);
  command->add_option("-o,--output", what->output, "table, wide, json or yaml")
      ->check(CLI::IsMember({"table", "wide", "json", "yaml"}))
      ->capture_default_str();
}

void AddStatus(CLI::App& app, Invocation* invocation) {
  auto what = std::make_shared<StatusCommand>();
  CLI::App* command = Add(app, invocation, "status",
                          "Show a job's machines, progress, failures and restarts", what);
  AddNameHere(command, what->name);
  CLI::Option* output = command->add_option("-o,--output", what->output, "text, json or yaml")
                            ->check(CLI::IsMember({"text", "json", "yaml"}))
                            ->capture_default_str();
  command
      ->add_flag("-w,--watch", what->watch,
                 "Show it anew at each change until the job has ended; exits with 0 if it "
                 "succeeded, else 70")
      ->excludes(output);
}

void AddLogs(CLI::App& app, Invocation* invocation) {
  auto what = std::make_shared<LogsCommand>();
  CLI::App* command = Add(app, invocation, "logs", "Show what a job's processes printed", what);
  AddNameHere(command, what->name);
  CLI::Option* rank = command->add_option("--rank", what->rank, "Show the lines of this rank only");
  command->add_option("--machine", what->machine, "Show the lines of this machine only")
      ->excludes(rank);
  CLI::Option* follow =
      command->add_flag("-f,--follow", what->follow,
                        "Follow the output until the job has ended, on replaced machines too");
  command->add_option("--tail", what->tail, "Only the last N lines of each machine")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000))
      ->excludes(follow);
}

void AddWhy(CLI::App& app, Invocation* invocation) {
  auto what = std::make_shared<WhyCommand>();
  CLI::App* command = Add(app, invocation, "why",
                          "Explain a job's last failure: root cause, budget, what to do", what);
  AddNameHere(command, what->name);
}

void AddDebug(CLI::App& app, Invocation* invocation) {
  auto what = std::make_shared<DebugCommand>();
  CLI::App* command = Add(app, invocation, "debug",
                          "Show where a job's processes are: stacks, threads, waits", what);
  command->add_option(
      "NAME", what->name,
      "A run on this computer, else a TrainingJob; default: all runs on this computer");
  command->add_option("--rank", what->rank, "Show this rank only");
  command->add_flag("--kernel", what->kernel,
                    "Show each thread's system call and kernel stack, too");
}

void AddRestart(CLI::App& app, Invocation* invocation) {
  auto what = std::make_shared<RestartCommand>();
  CLI::App* command =
      Add(app, invocation, "restart",
          "Start a new generation of a job, uncharged, on the machines that it has", what);
  command->add_option("NAME", what->name,
                      "A run on this computer, else a TrainingJob; default: the only run here");
  command->add_option("--pid", what->pid, "The process ID of a `lockstep run` on this computer")
      ->type_name("PID")
      ->check(CLI::PositiveNumber);
  command->add_flag("--at-commit", what->at_commit,
                    "Wait until the program commits a checkpoint, so that no step is done again");
  command->add_option("--reason", what->reason, "The reason, for status.history and events")
      ->type_name("TEXT")
      ->check(CLI::Validator(
          [](const std::string& text) {
            return text.size() <= 256 ? "" : std::string("has over 256 bytes");
          },
          ""));
}

void AddSync(CLI::App& app, Invocation* invocation) {
  auto what = std::make_shared<SyncCommand>();
  CLI::App* command =
      Add(app, invocation, "sync",
          "Run the code of a folder on all machines of a job that has spec.sync", what);
  AddName(command, what->name);
  command->add_option("DIR", what->folder, "The folder with the code")->required();
  command->add_flag("--watch", what->watch,
                    "Run each edit. Code that fails before its first step holds the gang, "
                    "uncharged, until the next edit");
}

void AddSuspend(CLI::App& app, Invocation* invocation, const char* name, const char* description,
                bool suspend) {
  auto what = std::make_shared<SuspendCommand>();
  what->suspend = suspend;
  AddName(Add(app, invocation, name, description, what), what->name);
}

void AddScale(CLI::App& app, Invocation* invocation) {
  auto what = std::make_shared<ScaleCommand>();
  CLI::App* command = Add(app, invocation, "scale", "Change how many machines a job has", what);
  AddName(command, what->name);
  command->add_option("N", what->machines, "The number of machines")->required();
}

void AddDelete(CLI::App& app, Invocation* invocation) {
  auto what = std::make_shared<DeleteCommand>();
  CLI::App* command = Add(app, invocation, "delete", "Delete jobs and their pods", what);
  command->add_option("NAME", what->names, "TrainingJobs")->required();
  command->add_flag("!--no-wait", what->wait, "Return before the pods are gone");
}

}  // namespace

std::shared_ptr<ClusterAddress> AddClusterAddress(CLI::App* command) {
  auto where = std::make_shared<ClusterAddress>();
  const char* group = "The cluster";
  command
      ->add_option("--kubeconfig", where->kubeconfig,
                   "Kubeconfig; default: $KUBECONFIG, else ~/.kube/config")
      ->type_name("FILE")
      ->group(group);
  command
      ->add_option("--context", where->context,
                   "Context of the kubeconfig; default: its current one")
      ->group(group);
  command->add_option("-n,--namespace", where->name_space, "Namespace; default: the context's")
      ->group(group);
  return where;
}

void AddClusterCommands(CLI::App& app, Invocation* invocation) {
  AddSubmit(app, invocation);
  AddList(app, invocation);
  AddStatus(app, invocation);
  AddLogs(app, invocation);
  AddWhy(app, invocation);
  AddDebug(app, invocation);
  AddRestart(app, invocation);
  AddSync(app, invocation);
  AddSuspend(app, invocation, "suspend", "Stop a job and release its machines", true);
  AddSuspend(app, invocation, "resume", "Continue a suspended job", false);
  AddScale(app, invocation);
  AddDelete(app, invocation);
}

}  // namespace lockstep::cli
