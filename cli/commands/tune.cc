#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/text/duration.h"
#include "cli/commands/commands.h"
#include "cli/commands/interrupt.h"
#include "cli/job/job_file.h"
#include "cli/job/plan_text.h"
#include "cli/machine/computer.h"
#include "cli/say.h"
#include "cli/tune/trial.h"
#include "cli/tune/tune_plan.h"
#include "cli/tune/tune_result.h"
#include "core/exit_codes.h"
#include "core/model/json.h"

namespace lockstep::cli {
namespace {

constexpr size_t kMostTrials = 500;
constexpr int kLonger = 4;      // times, when a stretch has too few steps
constexpr int kMostLonger = 2;  // how often

struct TuneOptions {
  std::string file;
  JobFlags flags;
  TuneChoices choices;
  std::vector<std::string> binds, memory_policies;
  int rounds = 3;
  double warm_up = 5, length = 20, patience = 600;
  uint64_t seed = 1;
  std::string work = "PerProcess";
  std::string json, html, output;
};

Duration Of(double length) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(length));
}

// A folder for the trials' files. Only those of failed trials outlive it.
class TrialFolder {
 public:
  static Result<TrialFolder> Make() {
    std::string path = std::filesystem::temp_directory_path() / "lockstep-tune-XXXXXX";
    if (mkdtemp(path.data()) == nullptr) return ErrnoError("making " + path, errno);
    return TrialFolder(std::move(path));
  }
  TrialFolder(TrialFolder&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  TrialFolder& operator=(TrialFolder&&) = delete;
  ~TrialFolder() {
    std::error_code ignored;
    if (!path_.empty() && !keep_) std::filesystem::remove_all(path_, ignored);
  }
  // Empty, also if the trial is repeated.
  std::string Of(size_t trial) const {
    std::string path = path_ + "/" + std::to_string(trial + 1);
    std::filesystem::remove_all(path);
    std::filesystem::create_directory(path);
    return path;
  }
  // Of a trial that has a figure.
  static void Remove(const std::string& place) {
    std::error_code ignored;
    std::filesystem::remove_all(place, ignored);
  }
  void Keep() { keep_ = true; }
  const std::string& path() const { return path_; }

 private:
  explicit TrialFolder(std::string path) : path_(std::move(path)) {}

  std::string path_;
  bool keep_ = false;
};

// The job of this setting is one that `lockstep run` would take.
bool IsValid(const core::TrainingJob& job, const std::string& file) {
  const std::vector<core::Problem> problems = core::Validate(job, core::Target::kLocal);
  if (!core::HasErrors(problems)) return true;
  ShowProblems(problems, file);
  return false;
}

int Tune(TuneOptions options) {
  Result<LoadedJob> loaded =
      LoadJob(options.file, options.flags, core::Target::kLocal, std::nullopt);
  if (!loaded.ok()) {
    Say(loaded.error().message);
    return core::kExitUsage;
  }
  ShowProblems(loaded->problems, loaded->file);
  if (!loaded->ok()) return core::kExitUsage;
  const core::TrainingJob& job = loaded->job;
  for (const std::string& name : options.binds) {
    options.choices.binds.push_back(*core::ParseEnum<core::Bind>(name));
  }
  for (const std::string& name : options.memory_policies) {
    options.choices.memory_policies.push_back(*core::ParseEnum<core::MemoryPolicy>(name));
  }
  const Computer computer = LookAround();
  if (options.choices.processes.empty()) {
    options.choices.processes = PowersOfTwo(computer.gpus > 0 ? computer.gpus : computer.cores);
  }
  std::vector<TuneRow> rows;
  for (const TuneSetting& setting : SettingsOf(job, options.choices)) {
    if (!IsValid(WithSetting(job, setting), loaded->file)) return core::kExitUsage;
    TuneRow row;
    row.setting = setting;
    rows.push_back(std::move(row));
  }
  const std::vector<size_t> order = OrderOfTrials(rows.size(), options.rounds, options.seed);
  if (order.size() > kMostTrials) {
    Say("tune: " + std::to_string(order.size()) + " trials are more than " +
        std::to_string(kMostTrials) + ": name fewer settings, or fewer --rounds");
    return core::kExitUsage;
  }
  Result<TrialFolder> folder = TrialFolder::Make();
  if (!folder.ok()) {
    Say("tune: " + folder.error().message);
    return core::kExitTrouble;
  }
  Say("tune: " + std::to_string(order.size()) + (order.size() == 1 ? " trial of " : " trials of ") +
      FormatDuration(Of(options.warm_up + options.length)) + " and their start, on " +
      ToString(computer));
  Say("the program writes its own files in each trial; only checkpoints below "
      "LOCKSTEP_CHECKPOINT_DIR are kept apart");
  const StopSignals signals;
  StretchLimits limits{Of(options.warm_up), Of(options.length)};
  int longer = 0;
  for (size_t i = 0; i < order.size() && !Interrupted();) {
    TuneRow& row = rows[order[i]];
    if (!row.failed.empty()) {
      ++i;
      continue;
    }
    Say("trial " + std::to_string(i + 1) + " of " + std::to_string(order.size()) + ": " +
        ToString(row.setting));
    const std::string place = folder->Of(i);
    Result<Stretch> stretch = RunTrial({.job = TrialOf(job, row.setting, place),
                                        .folder = place,
                                        .limits = limits,
                                        .patience = Of(options.patience)},
                                       Interrupted());
    if (Interrupted()) break;
    if (!stretch.ok() && stretch.error().kind == ErrorKind::kNotFound && longer < kMostLonger) {
      // All trials from here on, so that stretches stay alike.
      limits.length *= kLonger;
      ++longer;
      Say("too few steps to measure: " + FormatDuration(limits.length) + " from now on");
      continue;
    }
    ++i;
    if (stretch.ok()) {
      row.stretches.push_back(*stretch);
      TrialFolder::Remove(place);
      continue;
    }
    TrialFolder::Remove(place + "/checkpoints");
    row.failed = stretch.error().message;
    row.stretches.clear();
    folder->Keep();
    Say("no figure: " + row.failed + "; output: " + place + "/output");
  }
  const StepWork work = options.work == "Global" ? StepWork::kGlobal : StepWork::kPerProcess;
  TuneReport report = Conclude(std::move(rows), work, options.seed);
  report.interrupted = Interrupted();
  const std::string json = DumpJson(TuneJson(report), 2) + "\n";
  const bool only_json = options.json == "-";
  std::cout << (only_json ? json : TuneTable(report));
  bool written = WriteOrSay(only_json ? "" : options.json, json) &&
                 WriteOrSay(options.html, TuneHtml(report, job.metadata.name));
  if (report.best && !options.output.empty()) {
    const core::TrainingJob best = WithSetting(job, report.rows[*report.best].setting);
    written &= WriteOrSay(options.output, ToYaml(ParseOrderedJson(core::ToJson(best))));
  }
  if (Interrupted()) return core::kExitStopped;
  return written && report.best ? core::kExitSuccess : core::kExitTrouble;
}

}  // namespace

void AddTune(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<TuneOptions>();
  CLI::App* command = app.add_subcommand(
      "tune", "Find how many processes a job should have here, by short trials of it");
  command->add_option("FILE", options->file, "A TrainingJob in YAML or JSON; - for standard input");
  const CLI::Range machines(1, core::kMostMachines);
  const CLI::Range processes(1, core::kMostProcessesPerMachine);
  command
      ->add_option("-p,--processes", options->choices.processes,
                   "Processes on each machine: 1,2,4; default: powers of two up to the computer's "
                   "GPUs, else cores")
      ->delimiter(',')
      ->check(processes);
  command
      ->add_option("-m,--machines", options->choices.machines,
                   "Numbers of machines, all on this computer; default: as the job has it")
      ->delimiter(',')
      ->check(machines);
  command
      ->add_option("--threads", options->choices.threads,
                   "OMP_NUM_THREADS of each process: 1,2,4; default: its share of the cores")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096));
  command
      ->add_option("--bind", options->binds,
                   "topology.bind: Node, Socket, CoreComplex, Exclusive, Interleave, None")
      ->delimiter(',')
      ->check(CLI::IsMember({"Node", "Socket", "CoreComplex", "Exclusive", "Interleave", "None"}));
  command
      ->add_option("--memory-policy", options->memory_policies,
                   "topology.memoryPolicy: Preferred, Strict, Interleave, None")
      ->delimiter(',')
      ->check(CLI::IsMember({"Preferred", "Strict", "Interleave", "None"}));
  command->add_option("--framework", options->flags.framework, core::ListFrameworks());
  command->add_option("--env", options->flags.env, "NAME=VALUE for every process; repeatable");
  command
      ->add_option("--work", options->work,
                   "How a step's work grows: PerProcess, each rank has its own batch; or Global, "
                   "all ranks share one")
      ->check(CLI::IsMember({"PerProcess", "Global"}))
      ->capture_default_str();
  command->add_option("-r,--rounds", options->rounds, "Trials of each setting")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  command->add_option("--seconds", options->length, "Seconds that are measured in each trial")
      ->check(CLI::Range(0.5, 86400.0))
      ->capture_default_str();
  command
      ->add_option("--warm-up", options->warm_up,
                   "Seconds after the first step that are not measured")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  command->add_option("--start-timeout", options->patience, "Seconds until a trial's first step")
      ->check(CLI::Range(1.0, 86400.0))
      ->capture_default_str();
  command->add_option("--seed", options->seed, "Seed of the order of the trials")
      ->capture_default_str();
  command->add_option("-o,--output", options->output, "Write the job of the best setting as YAML")
      ->type_name("FILE");
  command
      ->add_option("--json", options->json,
                   "Write all figures to a file; -: print them instead of the table")
      ->type_name("FILE");
  command->add_option("--html", options->html, "Write a page with a bar for each setting")
      ->type_name("FILE");
  command->footer(
      "Examples:\n"
      "  lockstep tune -- python train.py\n"
      "  lockstep tune -p 1,2,4 --threads 1,2 -o best.yaml job.yaml\n"
      "\n"
      "Each trial is a run of the program, in an order drawn by --seed. Its steps are those that\n"
      "it reports or prints. Checkpoints below LOCKSTEP_CHECKPOINT_DIR go to a folder that is\n"
      "removed. What the program writes elsewhere, it writes in each trial: give it another "
      "output\n"
      "folder. Work is tokens a second if the program reports them, else steps a second, times "
      "the\n"
      "ranks with PerProcess.\n"
      "Exit codes: 0 measured; 1 no setting has a figure; 2 wrong usage, or the job isn't valid;\n"
      "143 interrupted, after what was measured is shown.");
  command->callback([options, invocation] {
    options->flags.command = invocation->command;
    if (options->file.empty() && options->flags.command.empty()) {
      Say("tune: give a FILE, or -- and a command line");
      invocation->exit_code = core::kExitUsage;
      return;
    }
    invocation->exit_code = Tune(*options);
  });
}

}  // namespace lockstep::cli
