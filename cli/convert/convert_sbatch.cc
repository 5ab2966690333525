// Batch scripts of SLURM, and lines of srun. A script is read, not run: its #SBATCH lines say the
// sizes, its variables are followed as far as they are written out, and the one command in it that
// starts the training becomes the job's.
#include <algorithm>
#include <array>

#include "cli/convert/command_role.h"
#include "cli/convert/launcher_options.h"
#include "cli/convert/script.h"
#include "cli/convert/slurm_options.h"
#include "core/plan/environment.h"
#include "core/plan/launcher.h"
#include "core/text/limited_text.h"
#include "core/text/text.h"

namespace lockstep::convert {
namespace {

constexpr std::string_view kDirective = "#SBATCH";

constexpr auto kContainer = std::to_array<KnownOption>({
    {"nv rocm cleanenv e contain c containall C writable-tmpfs no-home fakeroot f ipc pid", 0,
     kNothing},
    {"bind B mount", 1, "write volumes and mounts in the template."},
    {"env", 1, "write env."},
    {"env-file home H overlay o workdir W scratch", 1, "write it in the template."},
    {"pwd", 1, "write workingDir."},
});

class BatchConverter {
 public:
  BatchConverter(ScriptVariables variables, SlurmAllocation allocation, const FileReader& read,
                 JobBuilder& builder)
      : expander_(std::move(variables)),
        allocation_(std::move(allocation)),
        read_(read),
        builder_(builder) {}

  void ConvertScript(std::string_view text) {
    Read(text, 1);
    Launch();
  }

  void ConvertLine(const std::vector<std::string>& command) {
    Srun(command, ExpandedCommand{.words = command, .unknown = {}});
  }

 private:
  struct Candidate {
    ExpandedCommand command;
    int line = 0;
    Role role = Role::kOther;
  };

  // Follows the script's variables, and finds what it starts.
  void Read(std::string_view text, int first_line) {
    const Script script = ReadScript(text);
    if (script.problem) {
      builder_.Error("", {first_line + script.problem->line - 1, 1}, script.problem->message);
      return;
    }
    for (const ScriptCommand& command : script.commands) {
      const int line = first_line + command.line - 1;
      ExpandedCommand expanded = expander_.Expand(command.text);
      if (expanded.words.empty()) continue;
      if (command.depth > 0) {
        InBlock(expanded, command, line);
      } else if (!command.after_pipe) {
        Command(std::move(expanded), command, line);
      } else if (const auto words = Program(expanded);
                 !words.empty() && RoleOf(words) == Role::kTraining) {
        RefuseInput(line);
      }
    }
  }

  // Nobody knows whether a block runs, or how often.
  void InBlock(const ExpandedCommand& command, const ScriptCommand& source, int line) {
    for (const std::string& word : command.words) {
      const size_t name = AssignedName(word);
      if (name > 0) expander_.Forget(word.substr(0, name));
    }
    const std::vector<std::string> words = Program(command);
    if (words.empty()) return;
    const Role role = RoleOf(words);
    if (role == Role::kTraining) {
      builder_.Error("", {line, 1},
                     "the launch is inside a block (if, for, a function, brackets), so whether "
                     "it runs is not known: write it at the top of the script");
    } else if (role != Role::kQuiet) {
      LeftOut(source, line, "whether the block around it runs is not known.");
    }
  }

  void RefuseInput(int line) {
    builder_.Error("", {line, 1},
                   "the launch reads a standard input (a pipe, a file or a here-document), and no "
                   "rank has one: let the program open a file, or name a script's file");
  }

  void LeftOut(const ScriptCommand& command, int line, const std::string& why) {
    builder_.Remark("Line " + std::to_string(line) + ", `" +
                    core::FirstBytes(core::OneLine(command.text), kShown) +
                    "`, is not carried over: " + why);
  }

  static std::vector<std::string> Program(const ExpandedCommand& command) {
    const auto first =
        std::find_if(command.words.begin(), command.words.end(), [](const std::string& word) {
          return AssignedName(word) == 0 &&
                 !IsOneOf(word, {"exec", "nohup", "command", "time", "env"});
        });
    return {first, command.words.end()};
  }

  void Command(ExpandedCommand command, const ScriptCommand& source, int line) {
    std::vector<std::string> words = Program(command);
    if (words.empty()) {
      for (const std::string& word : command.words) Assign(word, command);
      return;
    }
    const std::string& program = words[0];
    if (IsOneOf(program, {"export", "declare", "readonly", "local", "typeset"})) {
      for (size_t i = 1; i < words.size(); ++i) Export(words[i], command, line);
    } else if (program == "unset") {
      for (const std::string& name : words) expander_.Forget(name);
    } else if (program == "eval" && command.unknown.empty()) {
      Evaluate(words, line);
    } else if (program == "cd" && words.size() > 1) {
      WorkingDir(words[1], command, line);
    } else {
      Consider({.command = std::move(command), .line = line, .role = RoleOf(words)}, source);
    }
  }

  void Assign(const std::string& word, const ExpandedCommand& command) {
    const size_t length = AssignedName(word);
    const std::string name = word.substr(0, length);
    if (command.unknown.size() > kMostUnknown) return expander_.Forget(name);
    std::vector<std::string> unknown;
    for (const std::string& each : command.unknown) {
      if (word.find(each) != std::string::npos) unknown.push_back(each);
    }
    // A $(command line) within words could not be told from them.
    const bool parts_words =
        std::any_of(unknown.begin(), unknown.end(), [](const std::string& each) {
          return std::any_of(each.begin(), each.end(), IsShellBlank);
        });
    if (parts_words || word.substr(length + 1) == "$" + name) {
      expander_.Forget(name);
    } else {
      expander_.Set(name, word.substr(length + 1), std::move(unknown));
    }
  }

  void Export(const std::string& word, const ExpandedCommand& command, int line) {
    if (word.starts_with('-')) return;
    const size_t length = AssignedName(word);
    if (length > 0) Assign(word, command);
    const std::string name = length > 0 ? word.substr(0, length) : word;
    const std::string* value = expander_.Find(name);
    if (name.starts_with("SLURM_N") || name.starts_with("SRUN_N")) {
      builder_.Warn("line " + std::to_string(line) + " sets " + name +
                    ", which may change how many processes srun starts: write numMachines and "
                    "processesPerMachine.");
    }
    if (name.starts_with("SLURM_") || name.starts_with("SRUN_") || name.starts_with("SBATCH_")) {
      return;
    }
    if (expander_.IsWhole(name) || core::IsReserved(name)) {
      builder_.SetExport(name, value == nullptr ? "" : *value);
    } else {
      const std::string unknown = command.UnknownIn(word);
      builder_.Remark("Line " + std::to_string(line) + ": env " + name +
                      " is not carried over: its value is computed where the script runs" +
                      (unknown.empty() ? "." : ", by " + unknown + "."));
    }
    if (name == "NCCL_SOCKET_IFNAME" || name == "GLOO_SOCKET_IFNAME") {
      builder_.Remark("env " + name +
                      " names an interface of SLURM's nodes; a pod's interface is usually eth0, "
                      "and is found without this variable.");
    }
  }

  void Evaluate(const std::vector<std::string>& words, int line) {
    if (++shells_ > kMostShells) {
      builder_.Error("", {line, 1}, "eval within eval can't be followed; write the line itself");
      return;
    }
    std::string text;
    for (size_t i = 1; i < words.size(); ++i) text += words[i] + " ";
    Read(text, line);
  }

  void WorkingDir(const std::string& folder, const ExpandedCommand& command, int line) {
    const std::string unknown = command.UnknownIn(folder);
    if (unknown.empty() && folder.starts_with('/')) {
      builder_.job.spec.working_dir = folder;
    } else {
      builder_.Remark("Line " + std::to_string(line) + ": cd " + folder +
                      " is not carried over: write workingDir.");
    }
  }

  void Consider(Candidate candidate, const ScriptCommand& source) {
    if (candidate.role == Role::kSurrounds) {
      LeftOut(source, candidate.line, "put its content into the image.");
    } else if (candidate.role == Role::kOther && !IsContainer(Program(candidate.command))) {
      LeftOut(source, candidate.line,
              "Lockstep starts ranks only; write it into the command, or run it in an init "
              "container of the template.");
    } else if (candidate.role != Role::kQuiet && !IsDiagnosis(Program(candidate.command))) {
      if (IsContainer(Program(candidate.command))) candidate.role = Role::kTraining;
      candidates_.push_back(std::move(candidate));
    }
  }

  static bool IsContainer(const std::vector<std::string>& words) {
    return words.size() > 2 && IsOneOf(core::BaseName(words[0]), {"singularity", "apptainer"}) &&
           IsOneOf(words[1], {"exec", "run"});
  }

  // srun hostname, srun -N1 nvidia-smi
  bool IsDiagnosis(const std::vector<std::string>& words) {
    if (core::BaseName(words[0]) != "srun") return false;
    JobBuilder unread;
    SlurmAllocation ignored;
    const std::vector<std::string> program =
        ReadSlurmOptions({words.begin() + 1, words.end()}, "srun", {}, ignored, unread);
    return !program.empty() && IsQuiet(core::BaseName(program[0])) &&
           core::LauncherOf(program).empty();
  }

  // Takes the one command that starts the training.
  void Launch() {
    const bool any_launcher =
        std::any_of(candidates_.begin(), candidates_.end(),
                    [](const Candidate& each) { return each.role == Role::kTraining; });
    std::vector<Candidate> launches;
    for (Candidate& each : std::exchange(candidates_, {})) {
      if (any_launcher && each.role != Role::kTraining) {
        builder_.Remark("Line " + std::to_string(each.line) + ", `" +
                        core::FirstBytes(core::ShellQuote(Program(each.command)), kShown) +
                        "`, runs on one node beside the training, and is not carried over.");
      } else {
        launches.push_back(std::move(each));
      }
    }
    if (builder_.error_count() > 0) return;
    if (launches.empty()) {
      builder_.Error("", {},
                     "nothing in the script starts a training: no srun, torchrun, "
                     "accelerate launch, deepspeed, mpirun, horovodrun or python");
      return;
    }
    if (launches.size() > 1) {
      builder_.Error("", {launches[1].line, 1},
                     "the script starts several programs, the first in line " +
                         std::to_string(launches[0].line) + "; write one TrainingJob for each");
      return;
    }
    builder_.StandAt({launches[0].line, 1});
    Start(launches[0].command, false);
  }

  // Whether srun starts it on all nodes, or the script on the first alone.
  void Start(const ExpandedCommand& command, bool by_srun) {
    if (command.reads_input) return RefuseInput(0);
    const std::vector<std::string> words = Program(command);
    for (size_t i = 0; i + words.size() < command.words.size(); ++i) {
      const std::string& word = command.words[i];
      const size_t length = AssignedName(word);
      if (length > 0) builder_.SetExport(word.substr(0, length), word.substr(length + 1));
    }
    if (command.redirected) {
      builder_.Remark(
          "The launch's redirections are not carried over: logs.path keeps a file for "
          "each rank.");
    }
    if (!by_srun && core::BaseName(words[0]) == "srun") return Srun(words, command);
    Inside(words, command, by_srun);
  }

  void Srun(const std::vector<std::string>& words, const ExpandedCommand& command) {
    const size_t before = builder_.error_count();
    std::vector<std::string> program =
        ReadSlurmOptions({words.begin() + 1, words.end()}, "srun", {}, allocation_, builder_);
    if (builder_.error_count() > before) return;
    if (program.empty()) {
      builder_.Error("", {}, "srun names no program; write it after the options");
      return;
    }
    Inside(program, command, true);
  }

  void Inside(std::vector<std::string> words, const ExpandedCommand& command, bool by_srun) {
    if (IsContainer(words)) {
      words = WithoutContainer(words);
      if (words.empty()) return;
    }
    if (IsShell(core::BaseName(words[0])) && words.size() > 2 && words[1].starts_with('-') &&
        words[1].ends_with('c') && !core::LauncherOf(words).empty()) {
      return ShellLine(words[2], by_srun);
    }
    const Size nodes =
        by_srun ? Size{.machines = allocation_.nodes, .per_machine = allocation_.GpusPerNode()}
                : AllocatedSize(words);
    if (!ConvertLauncher(words, nodes, read_, builder_)) {
      if (const std::string launcher = core::LauncherOf(words); !launcher.empty()) {
        builder_.Error("", {},
                       launcher + " stands behind " + words[0] +
                           ", where its options can't be read; write it first");
        return;
      }
      Program(words, by_srun);
    }
    RemarkUnknown(command);
    if (builder_.error_count() == 0) Finish();
  }

  // mpirun and horovodrun take the allocation's tasks, others its nodes.
  Size AllocatedSize(const std::vector<std::string>& words) const {
    const std::string launcher = core::LauncherOf(words);
    if (core::IsMpirun(launcher) || launcher == "horovodrun") return allocation_.TaskSize();
    return {.machines = allocation_.nodes, .per_machine = allocation_.GpusPerNode()};
  }

  std::vector<std::string> WithoutContainer(const std::vector<std::string>& words) {
    const size_t before = builder_.error_count();
    CommandLine line = ReadLauncherOptions({words.begin() + 2, words.end()},
                                           {words[0], Style::kWords, kContainer}, {}, builder_);
    if (builder_.error_count() > before) return {};
    if (line.program.size() < 2) {
      builder_.Error("", {}, words[0] + " names no program after its image");
      return {};
    }
    builder_.Remark("The image " + line.program[0] +
                    " is not carried over: write image, as a registry has it.");
    line.program.erase(line.program.begin());
    return line.program;
  }

  // srun bash -c '...': a script within the script.
  void ShellLine(const std::string& text, bool by_srun) {
    if (++shells_ > kMostShells) {
      builder_.Error("", {}, "a shell starts another shell here; write the launcher's line itself");
      return;
    }
    Read(text, 1);
    std::vector<Candidate> inner = std::exchange(candidates_, {});
    std::erase_if(inner, [](const Candidate& each) { return each.role != Role::kTraining; });
    if (builder_.error_count() > 0) return;
    if (inner.size() != 1) {
      builder_.Error(
          "", {}, "the shell's line must start one launcher, not " + std::to_string(inner.size()));
      return;
    }
    Start(inner[0].command, by_srun);
  }

  void Program(const std::vector<std::string>& words, bool by_srun) {
    builder_.SetCommand(words);
    if (!by_srun) {
      builder_.Remark(
          "The script starts the program without srun, so once, on the first of its "
          "nodes: this is one process.");
      return;
    }
    builder_.SetSize(allocation_.TaskSize(), "srun", {});
    const std::string variables =
        "RANK and LOCAL_RANK in place of SLURM_PROCID and SLURM_LOCALID, WORLD_SIZE in place of "
        "SLURM_NTASKS.";
    if (std::any_of(words.begin(), words.end(), [](const std::string& word) {
          return word.find("$SLURM_") != std::string::npos ||
                 word.find("${SLURM_") != std::string::npos;
        })) {
      builder_.Warn("no SLURM_ variable is set here: write " + variables);
    } else {
      builder_.Remark("The program reads " + variables);
    }
    builder_.Warn(
        "a program that joins by MPI needs framework: Mpi, with mpi.start: Pmi for MPICH and Intel "
        "MPI, Pmix for Open MPI; else each process would be its own world, and the job would "
        "succeed.");
    if (IsShell(core::BaseName(words[0])) || words[0].ends_with(".sh")) {
      builder_.Remark("What " + words[0] +
                      " starts was not read: if it calls a launcher, convert that line itself.");
    }
  }

  // Unknown values that reached the job.
  void RemarkUnknown(const ExpandedCommand& command) {
    std::string names;
    for (const std::string& word : builder_.job.spec.command) {
      const std::string unknown = command.UnknownIn(word);
      if (!unknown.empty() && names.find(unknown) == std::string::npos) {
        names += (names.empty() ? "" : ", ") + unknown;
      }
    }
    if (names.empty()) return;
    builder_.Warn("the value of " + names +
                  " is not known, because no shell runs the command: write the value.");
  }

  void Finish() {
    allocation_.WarnOfNamedNodes(builder_);
    const int32_t machines = builder_.job.spec.num_machines;
    if (allocation_.nodes && *allocation_.nodes != machines) {
      builder_.Warn("the script asks for " + std::to_string(*allocation_.nodes) +
                    " nodes, what it starts uses " + std::to_string(machines) +
                    ": numMachines is " + std::to_string(machines) + ".");
    }
    WriteSlurmResources(allocation_, builder_);
  }

  static constexpr size_t kShown = 60;  // bytes of a command in a remark
  static constexpr int kMostShells = 3;
  static constexpr size_t kMostUnknown = 100;  // in one command

  Expander expander_;
  SlurmAllocation allocation_;
  const FileReader& read_;
  JobBuilder& builder_;
  std::vector<Candidate> candidates_;
  int shells_ = 0;
};

// The #SBATCH lines that sbatch reads: those before the first command.
SlurmAllocation ReadDirectives(std::string_view text, JobBuilder& builder) {
  SlurmAllocation allocation;
  bool past_first_command = false;
  int line = 0;
  while (!text.empty()) {
    ++line;
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view row = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const bool is_directive = row.starts_with(kDirective);
    past_first_command = past_first_command || (!Trim(row).empty() && Trim(row)[0] != '#');
    if (!is_directive) continue;
    if (past_first_command) {
      builder.Remark("Line " + std::to_string(line) +
                     ": sbatch ignores #SBATCH after the first command, and so does lockstep.");
      continue;
    }
    std::string_view options = row.substr(kDirective.size());
    options = options.substr(0, options.find(" #"));
    if (Trim(options) == "hetjob") {
      builder.Error("hetjob", {line, 1},
                    "a TrainingJob has equal parts; write one TrainingJob for each");
      continue;
    }
    const std::vector<std::string> rest = ReadSlurmOptions(
        Expander({}).Expand(options).words, "sbatch", {line, 1}, allocation, builder);
    if (!rest.empty()) {
      builder.Error("", {line, 1}, "\"" + rest[0] + "\" is not an option of sbatch");
    }
  }
  return allocation;
}

ScriptVariables VariablesOf(const SlurmAllocation& allocation, const std::string& job_name) {
  ScriptVariables variables;
  const auto set = [&](const char* name, const std::optional<int64_t>& value) {
    if (value) variables[name] = std::to_string(*value);
  };
  const bool sized = allocation.nodes || (allocation.tasks && allocation.tasks_per_node);
  const auto nodes = sized ? std::optional(allocation.Nodes()) : std::nullopt;
  set("SLURM_NNODES", nodes);
  set("SLURM_JOB_NUM_NODES", nodes);
  const auto tasks = allocation.Tasks() ? allocation.Tasks()
                     : nodes            ? std::optional(*nodes * allocation.TasksPerNode())
                                        : std::nullopt;
  set("SLURM_NTASKS", tasks);
  set("SLURM_NPROCS", tasks);
  set("SLURM_NTASKS_PER_NODE", allocation.tasks_per_node);
  set("SLURM_CPUS_PER_TASK", allocation.cpus_per_task);
  set("SLURM_GPUS_PER_NODE", allocation.gpus_per_node);
  set("SLURM_GPUS_ON_NODE", allocation.GpusPerNode());
  variables["SLURM_JOB_NAME"] = job_name;
  return variables;
}

}  // namespace

bool IsSbatch(std::string_view text) {
  return text.starts_with("#!") || text.starts_with(kDirective) ||
         text.find("\n" + std::string(kDirective)) != std::string_view::npos;
}

void ConvertSbatch(std::string_view text, const FileReader& read, JobBuilder& builder) {
  if (const std::optional<core::Problem> problem = core::CheckText(text)) {
    builder.Error("", {problem->line, problem->column}, problem->message);
    return;
  }
  SlurmAllocation allocation = ReadDirectives(text, builder);
  ScriptVariables variables = VariablesOf(allocation, builder.job.metadata.name);
  BatchConverter(std::move(variables), std::move(allocation), read, builder).ConvertScript(text);
}

void ConvertSrun(const std::vector<std::string>& command, const FileReader& read,
                 JobBuilder& builder) {
  BatchConverter({}, {}, read, builder).ConvertLine(command);
}

}  // namespace lockstep::convert
