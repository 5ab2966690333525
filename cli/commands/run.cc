#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>

#include "base/file.h"
#include "base/process/process.h"
#include "base/process/stop_signals.h"
#include "base/text/ascii.h"
#include "base/time.h"
#include "cli/commands/commands.h"
#include "cli/commands/misread.h"
#include "cli/job/job_file.h"
#include "cli/job/plan_text.h"
#include "cli/machine/computer.h"
#include "cli/programs/ask.h"
#include "cli/programs/program_path.h"
#include "cli/run/local_operator.h"
#include "cli/run/machines/nodes.h"
#include "cli/run/other_python.h"
#include "cli/say.h"
#include "cli/sync/code_sync.h"
#include "core/exit_codes.h"
#include "core/failure/signals.h"
#include "core/gang/protocol/messages.h"
#include "core/plan/plan.h"
#include "worker/topology/plan/binding_plan.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAgentName = "lockstep-agent";
constexpr const char* kS3Name = "lockstep-s3";
constexpr size_t kHostFileLimit = size_t{4} << 20;

// What CLI11 gives a flag without a value.
constexpr const char* kBareFlag = "true";

struct RunCommand {
  std::string file;
  JobFlags flags;
  std::string agent;
  std::string hosts;
  bool local = false;
  std::string report;
  std::string status;
  std::string sync;
  std::string unschedulable;
  std::string ui;  // "": no page
  std::string tensorboard;
  std::vector<std::string> show;
  bool wide = false;
  bool no_namespace = false;
  bool no_table = false;
  bool no_hints = false;
  bool verbose = false;
};

// --agent, else beside this program, else in PATH. On other nodes it is at the same path.
Result<std::string> FindAgent(const std::string& wanted, const Nodes& nodes) {
  if (nodes.remote() && wanted.starts_with('/')) return wanted;  // it need not be here
  if (!wanted.empty()) {
    if (IsExecutable(wanted)) return fs::absolute(wanted).string();
    return Error::NotFound("--agent: " + wanted + " is not a program that can be run");
  }
  Result<std::string> found = FindProgram(kAgentName);
  if (found.ok()) return found;
  return Error::NotFound(found.error().message + "; build it, or name it with --agent");
}

bool IsPath(const std::string& resume) { return resume != "Auto" && resume != "Never"; }

// Agents see the same paths as whoever typed them.
void MakePathsAbsolute(core::Spec* spec) {
  if (!spec->logs.path.empty()) spec->logs.path = fs::absolute(spec->logs.path).string();
  if (!spec->working_dir.empty()) spec->working_dir = fs::absolute(spec->working_dir).string();
  const std::string& resume = spec->checkpoint.resume;
  if (IsPath(resume)) spec->checkpoint.resume = fs::absolute(resume).string();
}

Result<RunState> OpenState(const core::TrainingJob& job) {
  const core::Checkpoint& checkpoint = job.spec.checkpoint;
  const std::string& name = job.metadata.name;
  if (checkpoint.url.empty()) return RunState::Open(name, checkpoint.path, checkpoint.resume);
  const Result<std::string> program = FindProgram(kS3Name);
  if (!program.ok()) {
    return Error::NotFound("checkpoint.url: " + program.error().message +
                           "; the wheel does not have it: install the package for Linux or the "
                           "tarball, or build the target lockstep-s3 with Go 1.26 or later");
  }
  return RunState::OpenBucket(name, checkpoint.url, checkpoint.resume, *program);
}

bool SaysProcesses(const RunCommand& command) {
  return !command.file.empty() || command.flags.processes.has_value();
}

// What scontrol makes of "n[1-3]".
Result<std::vector<std::string>> ExpandNodeList(const std::string& list) {
  Result<Answer> answer = Error::Unavailable("no answer");
  const Status asked =
      AskAll({{"scontrol", {"scontrol", "show", "hostnames", list}}}, {.env = OwnEnvironment()},
             [&answer](size_t, const Result<Answer>& each) { answer = each; });
  if (!asked.ok()) return asked.error();
  if (!answer.ok()) return answer.error();
  std::vector<std::string> names;
  std::istringstream words(answer->text);
  for (std::string name; words >> name;) names.push_back(name);
  if (names.empty()) return Error::Unavailable("scontrol: " + answer->words);
  return names;
}

Result<Nodes> FindNodes(const RunCommand& command, const std::vector<std::string>& words) {
  NodesRequest request;
  request.line = {words, SaysProcesses(command), !command.hosts.empty()};
  request.hosts = command.hosts;
  request.local = command.local;
  request.variable = [](const std::string& name) {
    const char* value = std::getenv(name.c_str());
    return std::string(value == nullptr ? "" : value);
  };
  request.expand = ExpandNodeList;
  request.read = [](const std::string& path) { return ReadFile(path, kHostFileLimit); };
  return FindNodes(request);
}

// A command line alone takes all nodes there are, and each one's tasks or GPUs.
JobFlags FlagsOn(const Nodes& nodes, const RunCommand& command) {
  JobFlags flags = command.flags;
  if (!command.file.empty() || !nodes.remote()) return flags;
  if (!flags.machines) flags.machines = static_cast<int32_t>(nodes.names.size());
  if (!flags.processes) flags.processes = nodes.processes;
  return flags;
}

// What a job is told of nodes that are other computers, which have no folder of this program's.
void FitToNodes(core::Spec* spec) {
  if (spec->working_dir.empty()) spec->working_dir = fs::current_path().string();
  spec->shared_memory.reset();  // of pods: says whose /dev/shm is
}

// The PATH that the ranks' command is looked up in.
std::string PathOfRanks(const core::Spec& spec) {
  const auto own = std::ranges::find(spec.env, "PATH", &core::EnvVar::name);
  if (own != spec.env.end()) return own->value;
  const char* path = std::getenv("PATH");
  return path == nullptr ? "" : path;
}

void ShowHints(const core::TrainingJob& job, const Computer& computer, bool hints) {
  const std::string hint = HintText(core::Recommend(job, computer.cores, computer.gpus));
  if (!hint.empty() && hints) Say(hint);
  const Result<std::string> program = OwnProgram();
  const std::string python =
      program.ok() ? OtherPythonHint(*program, job.spec.command, PathOfRanks(job.spec)) : "";
  if (!python.empty() && hints) Say(python);
  topology::BindingRequest request = topology::RequestOf(job.spec, OwnEnvironment());
  request.parts = job.spec.num_machines;
  for (const std::string& note : topology::PlanBinding(computer.machine, request).notes) Say(note);
}

// Of a FILE that is no job but a program; "" of any other.
std::string AdviceOnFile(const std::string& file, const std::vector<std::string>& words) {
  const auto place = std::ranges::find(words, file);
  if (file.empty() || file == "-" || place == words.end()) return "";
  std::array<char, 4> bytes{};
  const Result<UniqueFd> fd = OpenRegularFile(file);
  const ssize_t got = fd.ok() ? read(fd->get(), bytes.data(), bytes.size()) : 0;
  const std::string kind =
      ProgramKind(file, std::string(bytes.data(), got > 0 ? static_cast<size_t>(got) : 0));
  if (kind.empty()) return "";
  return file + " is " + kind + ", and no job: `" +
         RunsCommand(words, static_cast<size_t>(place - words.begin())) + "`";
}

int Fail(const std::string& message, int code) {
  Say(message);
  return code;
}

// Checks before anything runs that the file of `option` can be written, and removes an earlier
// run's file.
Status PrepareOutput(const std::string& option, const std::string& path) {
  if (path.empty()) return {};
  std::error_code error;
  const fs::file_status there = fs::status(path, error);
  if (fs::exists(there) && !fs::is_regular_file(there)) {
    return Error::Invalid(option + ": " + path + " is not a regular file; name another");
  }
  const Status written = WriteFileAtomically(path, "");
  if (!written.ok()) {
    return Error{written.error().kind, option + ": " + written.error().message +
                                           "; name a file in a folder that can be written to"};
  }
  fs::remove(path, error);
  return {};
}

// What this process writes to: a shell's `> run.log` is no code.
std::string FileBehind(int descriptor) {
  std::error_code none;
  return fs::read_symlink("/proc/self/fd/" + std::to_string(descriptor), none).string();
}

// Puts the code into place, and the job's ranks there. `outputs`: files that the run writes.
Result<std::shared_ptr<CodeSync>> OpenSync(const RunCommand& command,
                                           std::vector<std::string> outputs,
                                           core::TrainingJob* job) {
  std::error_code error;
  const std::string folder = fs::canonical(command.sync, error).string();
  if (error || !fs::is_directory(folder)) {
    return Error::NotFound("--sync: " + command.sync + " is not a folder");
  }
  for (const std::string& path : {job->spec.checkpoint.path, job->spec.logs.path}) {
    if (!path.empty()) outputs.push_back(fs::weakly_canonical(fs::absolute(path), error).string());
  }
  for (const int descriptor : {STDOUT_FILENO, STDERR_FILENO}) {
    outputs.push_back(FileBehind(descriptor));
  }
  std::erase(outputs, "");
  Result<std::unique_ptr<CodeSync>> sync =
      CodeSync::Open(folder, job->metadata.name, std::move(outputs));
  if (!sync.ok()) {
    return Error{sync.error().kind, "--sync: " + sync.error().message};
  }
  const char* python_path = std::getenv("PYTHONPATH");
  const Status placed = RunInTree(&job->spec, **sync, fs::current_path().string(),
                                  python_path == nullptr ? "" : python_path);
  if (!placed.ok()) return placed.error();
  return std::shared_ptr<CodeSync>(std::move(*sync));
}

int Run(const RunCommand& command, const std::vector<std::string>& words, Time started,
        std::chrono::system_clock::time_point started_wall) {
  if (command.file.empty() && command.flags.command.empty()) {
    return Fail("run: give a FILE, or -- and a command line", core::kExitUsage);
  }
  if (const std::string advice = AdviceOnFile(command.file, words); !advice.empty()) {
    return Fail(advice, core::kExitUsage);
  }
  Result<Nodes> found = FindNodes(command, words);
  if (!found.ok()) return Fail(found.error().message, core::kExitUsage);
  if (!SaysProcesses(command) && !found->unclear.empty())
    return Fail(found->unclear, core::kExitUsage);
  const Computer computer = LookAround();
  const std::optional<int> gpus = found->remote() ? std::nullopt : std::optional(computer.gpus);
  Result<LoadedJob> loaded =
      LoadJob(command.file, FlagsOn(*found, command), core::Target::kLocal, gpus);
  if (!loaded.ok()) return Fail(loaded.error().message, core::kExitUsage);
  ShowProblems(loaded->problems, loaded->file);
  if (!loaded->ok()) return core::kExitUsage;
  core::TrainingJob& job = loaded->job;
  const size_t all = found->names.size();
  Result<Nodes> nodes = FirstOf(*std::move(found), job.spec.num_machines);
  if (!nodes.ok()) return Fail(nodes.error().message, core::kExitUsage);
  if (nodes->remote() && job.spec.spare_machines > 0) {
    return Fail(
        "spares run on this computer only: leave out --spares and spareMachines with other hosts",
        core::kExitUsage);
  }
  if (nodes->names.size() < all) {
    Say("takes " + std::to_string(nodes->names.size()) + " of the " + std::to_string(all) +
        " nodes; -m " + std::to_string(all) + " takes all");
  }
  Result<std::string> agent = FindAgent(command.agent, *nodes);
  if (!agent.ok()) return Fail(agent.error().message, core::kExitTrouble);
  std::string ignored = core::IgnoredLocally(job);
  if (!ignored.empty()) Say("ignored on this computer: " + ignored);
  if (!nodes->remote()) ShowHints(job, computer, !command.no_hints);
  MakePathsAbsolute(&job.spec);
  if (nodes->remote()) FitToNodes(&job.spec);
  if (nodes->remote() && !command.sync.empty()) {
    return Fail("--sync copies code on this computer only: add --local, or leave out --sync",
                core::kExitUsage);
  }
  const std::string& resume = job.spec.checkpoint.resume;
  if (std::error_code error; IsPath(resume) && !fs::is_directory(resume, error)) {
    return Fail("checkpoint.resume names " + resume + ", which is not a folder", core::kExitUsage);
  }
  const std::string report = command.report.empty() ? "" : fs::absolute(command.report).string();
  if (const Status ready = PrepareOutput("--report", report); !ready.ok()) {
    return Fail(ready.error().message, core::kExitUsage);
  }
  const std::string status = command.status.empty() ? "" : fs::absolute(command.status).string();
  if (!status.empty() && status == report) {
    return Fail("--status and --report name the same file; name two", core::kExitUsage);
  }
  if (const Status ready = PrepareOutput("--status", status); !ready.ok()) {
    return Fail(ready.error().message, core::kExitUsage);
  }
  std::optional<uint16_t> ui;
  if (!command.ui.empty()) {
    ui = command.ui == kBareFlag ? 0 : ParseNumber<uint16_t>(command.ui);
    if (!ui) {
      return Fail("--ui=" + command.ui + ": write a port from 1 to 65535, or --ui for a free one",
                  core::kExitUsage);
    }
  }
  if (command.show.size() > core::kMaxNamedFigures) {
    return Fail("--show takes at most " + std::to_string(core::kMaxNamedFigures) + " names",
                core::kExitUsage);
  }
  if (std::error_code error;
      !command.tensorboard.empty() && (fs::create_directories(command.tensorboard, error), error)) {
    return Fail("--tensorboard: making the folder " + command.tensorboard + ": " + error.message() +
                    "; name one that can be written to",
                core::kExitUsage);
  }
  if (!job.spec.checkpoint.url.empty() && nodes->remote()) {
    return Fail(
        "checkpoint.url works on this computer and on a cluster only: add --local, or leave out "
        "checkpoint.url and --checkpoint-url",
        core::kExitUsage);
  }
  Result<RunState> state = OpenState(job);
  if (!state.ok()) return Fail(state.error().message, core::kExitTrouble);
  const std::string tensorboard =
      command.tensorboard.empty() ? "" : fs::absolute(command.tensorboard).string();
  RunOptions options;
  if (!command.sync.empty()) {
    Result<std::shared_ptr<CodeSync>> sync = OpenSync(command, {report, status, tensorboard}, &job);
    if (!sync.ok()) return Fail(sync.error().message, core::kExitUsage);
    options.sync = std::move(*sync);
  }
  options.agent = *agent;
  options.nodes = *std::move(nodes);
  options.report = report;
  options.ui = ui;
  if (!options.nodes.remote() && (ui || !report.empty())) {
    options.bindings =
        std::make_shared<const Bindings>(computer.machine, job.spec, OwnEnvironment());
  }
  options.status = status;
  options.tensorboard = tensorboard;
  options.show = command.show;
  options.wide = command.wide;
  options.unschedulable =
      command.unschedulable.empty() ? "" : fs::absolute(command.unschedulable).string();
  options.namespaces = !command.no_namespace;
  options.table = !command.no_table;
  options.verbose = command.verbose;
  options.started = started;
  options.started_wall = started_wall;
  Result<int> code = RunJob(job, std::move(*state), options);
  return code.ok() ? *code : Fail(code.error().message, core::kExitTrouble);
}

// A line of two columns for each code.
std::string ExitCodesOfRun() {
  struct Code {
    std::string code;
    const char* meaning;
  };
  const std::array<Code, 9> codes = {{
      {std::to_string(core::kExitSuccess), "every process of the last generation exited with 0"},
      {"N", "the code of the process that failed the job; 128 + N for signal N"},
      {std::to_string(core::kExitTrouble), "Lockstep could not continue"},
      {std::to_string(core::kExitUsage), "wrong usage, or the job isn't valid"},
      {std::to_string(core::kExitFailed), "the job failed, and no process's code explains it"},
      {std::to_string(core::kExitMachines), "more agents were lost than maxMachineReplacements"},
      {std::to_string(core::kExitHang), "no progress for hangTimeout"},
      {std::to_string(core::kExitConfiguration), "an agent could not work with its configuration"},
      {std::to_string(core::kExitDeadline), "activeDeadlineSeconds passed"},
  }};
  std::string text = "Exit codes:";
  for (const Code& each : codes) {
    text += "\n  " + each.code + std::string(5 - each.code.size(), ' ') + each.meaning;
  }
  for (const int signal : lockstep::kStopSignals) {  // not those of bench.cc
    text += "\n  " + std::to_string(core::kExitSignal + signal) + "  stopped by " +
            core::SignalName(signal) + (signal == SIGINT ? " (Ctrl-C)" : "");
  }
  return text;
}

void AddJobFlags(CLI::App* command, JobFlags* flags) {
  const char* group = "The job (overrides FILE)";
  auto add = [&](const std::string& name, auto& value, const std::string& description) {
    return command->add_option(name, value, description)->group(group);
  };
  add("-m,--machines", flags->machines,
      "Number of machines: agents on this computer, or one on each node; default 1, or all nodes");
  add("-p,--processes", flags->processes,
      "Processes on each machine; default 1, or SLURM's tasks or GPUs of a node, or another batch "
      "system's slots");
  add("--spares", flags->spares, "Agents that wait to replace lost ones; default 0");
  add("--framework", flags->framework, core::ListFrameworks() + "; default Torch");
  add("--launch", flags->launch,
      "PerProcess, or PerMachine for torchrun and programs that start the ranks");
  add("--name", flags->name, "The job's name; default: from the command");
  add("--env", flags->env, "NAME=VALUE for every process; repeatable")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  add("--bind", flags->bind,
      "Cores of each process: Node, Socket, CoreComplex, Exclusive, Interleave or None");
  add("--prestart", flags->prestart,
      "Park Python interpreters beside the ranks, imports done, for a restart: Never, Auto (the "
      "default: if memory has room) or Always");
  add("--checkpoint", flags->checkpoint, "The folder of checkpoints; a later run continues from it")
      ->type_name("FOLDER");
  add("--resume", flags->resume, "Auto, Never, or the path of the checkpoint to begin from");
  add("--max-restarts", flags->max_restarts, "Restarts allowed for failed processes; default 3");
  add("--max-machine-replacements", flags->max_machine_replacements,
      "Agents that may be lost; default 10");
  add("--grace-period", flags->grace_period, "Time from SIGTERM to SIGKILL on a stop; default 2m");
  add("--hang-timeout", flags->hang_timeout,
      "A process that has reported progress fails if it reports none for this long");
  add("--deadline", flags->deadline_seconds, "Seconds after which the job is stopped and failed");
  add("--console", flags->console, "The ranks whose lines are shown: All, RankZero or FailedOnly");
  add("--logs", flags->logs, "Folder for one log file for each rank and generation")
      ->type_name("FOLDER");
}

}  // namespace

void AddRun(CLI::App& app, Invocation* invocation) {
  auto run = std::make_shared<RunCommand>();
  CLI::App* command =
      app.add_subcommand("run",
                         "Run a job on this computer, a batch system's nodes or a list of "
                         "hosts, and heal it");
  command->add_option("FILE", run->file, "A TrainingJob in YAML or JSON; - for standard input");
  AddJobFlags(command, &run->flags);
  command->add_option(
      "--hosts", run->hosts,
      "Run one machine on each of these hosts, by ssh without a password: HOST,USER@HOST,...");
  command
      ->add_option("--checkpoint-url", run->flags.checkpoint_url,
                   "Agents upload checkpoints from memory to this object store, which speaks S3; a "
                   "later run continues from it")
      ->type_name("s3://BUCKET/PREFIX");
  command->add_flag("--sync{.}", run->sync,
                    "--sync=FOLDER: ranks run a copy of this folder's code (default: the current "
                    "folder), and restart with each change that is saved");
  command->add_flag("--local", run->local,
                    "Run all machines on this computer, even in a batch system's job");
  command
      ->add_option("--unschedulable", run->unschedulable,
                   "A file with numbers of machines, as in 1,3-4. A machine that it lists gets no "
                   "place before it starts or after it is lost: to try spec.elastic")
      ->type_name("FILE");
  command
      ->add_option_function<std::string>(
          "--away",
          [run](const std::string& file) {
            Say("--away is now --unschedulable; 0.3.0 drops it");
            run->unschedulable = file;
          },
          "Now --unschedulable")
      ->group("");  // not in --help
  command->add_option("--report", run->report, "Write a JSON report of the run there at its end")
      ->type_name("FILE");
  command
      ->add_option("--status", run->status,
                   "Write the job's status there as JSON when it changes, at most twice a second")
      ->type_name("FILE");
  command->add_flag("--ui", run->ui,
                    "Serve a page of the run on 127.0.0.1, at a free port or at --ui=PORT");
  command->add_option("--agent", run->agent, "The lockstep-agent to use, by its path on all nodes")
      ->type_name("PROGRAM");
  command->add_flag("--no-pid-namespace", run->no_namespace,
                    "Keep all processes in this PID namespace (CUDA IPC between machines)");
  command
      ->add_option("--show", run->show,
                   "Show this figure that the program reports, such as accuracy, as a column of "
                   "the table; repeatable")
      ->type_name("NAME")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  command->add_flag("--wide", run->wide,
                    "Show CPU, memory and network of each machine as columns of the table");
  command
      ->add_option("--tensorboard", run->tensorboard,
                   "Write what the program reports as TensorBoard's event files into this folder")
      ->type_name("FOLDER");
  command->add_flag("--no-table", run->no_table, "Print plain lines on a terminal too");
  command->add_flag("--no-hints", run->no_hints,
                    "Print no hints about what fits this computer better (`lockstep plan` does)");
  command->add_flag("-v,--verbose", run->verbose, "Show the agents' own logs");
  command->footer(
      std::string("Examples:\n") +
      "  lockstep run job.yaml\n"
      "  lockstep run -m 2 -p 2 --checkpoint ckpt -- python train.py --epochs 3\n"
      "  sbatch -N 4 --gpus-per-node 8 --wrap 'exec lockstep run -- python train.py'\n"
      "  lockstep run --hosts a,b -p 2 -- /shared/venv/bin/python train.py\n"
      "  lockstep run job.yaml --max-restarts 5 --report run.json\n"
      "\n"
      "Ctrl-C stops the job as a suspend does: SIGTERM, the grace period, SIGKILL. A second "
      "Ctrl-C\n"
      "kills. Ranks' lines go to standard output, Lockstep's own to standard error.\n"
      "\n" +
      ExitCodesOfRun());
  command->callback([run, invocation] {
    Time started = BootTime();
    auto started_wall = std::chrono::system_clock::now();
    run->flags.command = invocation->command;
    invocation->exit_code = Run(*run, invocation->words, started, started_wall);
  });
}

}  // namespace lockstep::cli
