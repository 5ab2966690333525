// Command lines of mpirun (Open MPI, MPICH, Intel MPI) and horovodrun. mpirun still starts the
// ranks (framework: Mpi), over all machines of the job. Horovod's are started without horovodrun
// (framework: Horovod).
#include <algorithm>
#include <array>

#include "cli/convert/launcher_options.h"
#include "core/plan/environment.h"
#include "core/plan/mpirun_options.h"

namespace lockstep::convert {
namespace {

constexpr std::string_view kNoNetwork =
    "ranks find each other by MASTER_ADDR and MASTER_PORT, without ssh or an MPI.";
constexpr std::string_view kOfMpirun = "if you still need it, write it into the command.";
constexpr std::string_view kOfHorovod =
    "write it into env by Horovod's own variable, as HOROVOD_FUSION_THRESHOLD.";
constexpr std::string_view kPerPlace =
    "it sets how many processes run on which host: write numMachines and processesPerMachine.";
constexpr std::string_view kOwnNodes = "machines are nodes that Kubernetes chooses.";
constexpr std::string_view kDebugger = "`kubectl lockstep debug` shows where every rank is.";
constexpr std::string_view kOverGloo = "Horovod's controller is Gloo's.";
constexpr std::string_view kNoInput = "no rank reads standard input.";

// What becomes of each option of core::kMpirunOptions, by its first name, in that table's order.
struct Note {
  std::string_view name;
  std::string_view remark;
  bool sizes = false;
};
constexpr auto kNotes = std::to_array<Note>({
    {"np", kUsed},
    {"npernode", kUsed},
    {"map-by", kUsed},
    {"host", kUsed},
    {"hostfile", kUsed},
    {"gpus-per-proc", kUsed},
    {"x", kUsed},
    {"env", kUsed},
    {"wdir", kUsed},
    {"genvlist", "the environment of a job is in its env; write them there."},
    {"genvall", kNothing},
    {"mca", kUsed},
    {"pmca", kUsed},
    {"tune", kOfMpirun},
    {"prefix", "the program and its libraries are in the image."},
    {"path", "the program and its libraries are in the image."},
    {"bind-to", kOfMpirun},
    {"rank-by", kOfMpirun},
    {"bynode", kOfMpirun},
    {"byslot", kNothing},
    {"bind-to-core", kOfMpirun},
    {"cpus-per-proc", "write resourcesPerProcess.cpu."},
    {"npersocket", kPerPlace, true},
    {"rr", kPerPlace, true},
    {"rankmap", kPerPlace, true},
    {"cpu-set", kOfMpirun},
    {"report-bindings", kOfMpirun},
    {"display", kOfMpirun},
    {"set-cwd-to-session-dir", "a rank begins in workingDir, and has its own TMPDIR."},
    {"do-not-launch", kNotHere},
    {"max-vm-size", kOwnNodes},
    {"order-nodes", kOwnNodes},
    {"rankfile", kPerPlace, true},
    {"oversubscribe", kNothing},
    {"allow-run-as-root", kNothing},
    {"tag-output", kNothing},
    {"output-filename", kOutput},
    {"xml", kOutput},
    {"prepend-pattern", kOutput},
    {"stdin", kNoInput},
    {"s", kNoInput},
    {"timeout", "write activeDeadlineSeconds."},
    {"bootstrap", kNoNetwork},
    {"bootstrap-exec", kNoNetwork},
    {"iface", kNoNetwork},
    {"plm-rsh-agent", kNoNetwork},
    {"enable-x", kNoNetwork},
    {"novm", kNothing},
    {"debug", kDebugger},
    {"debugger", kDebugger},
    {"disable-recovery", kNothing},
    {"disable-auto-cleanup", "when a rank dies the whole gang restarts in place (failurePolicy)."},
    {"max-restarts", "write failurePolicy.maxRestarts, which counts the job's restarts."},
    {"configfile", "a TrainingJob runs one program: write one TrainingJob for each.", true},
    {"preload-files", "files are in the image or on volumes."},
    {"preload-binary", "the program is in the image."},
    {"pernode", kUsed},
    {"usize", kOfMpirun},
    {"localhost", kNothing},
    {"demux", kNothing},
    {"localroot", kNothing},
    {"info", kNothing},
    {"print-rank-map", kOfMpirun},
    {"omca", kOfMpirun},
    {"runtime-options", kOfMpirun},
});

consteval auto MpirunOptions() {
  static_assert(kNotes.size() == core::kMpirunOptions.size(), "an option has no note");
  std::array<KnownOption, kNotes.size()> known{};
  for (size_t i = 0; i < kNotes.size(); ++i) {
    const core::MpirunOption& option = core::kMpirunOptions[i];
    if (kNotes[i].name != option.name()) throw "a note stands beside another option";
    known[i] = {option.names, option.values, kNotes[i].remark, kNotes[i].sizes};
  }
  return known;
}
constexpr auto kMpirun = MpirunOptions();

constexpr auto kHorovodrun = std::to_array<KnownOption>({
    {"np num-proc", 1, kUsed},
    {"hosts H", 1, kUsed},
    {"hostfile", 1, kUsed},
    {"min-np min-num-proc max-np max-num-proc slots-per-host slots", 1,
     "the world keeps its size until `kubectl scale`, which stops at a step and continues.", true},
    {"host-discovery-script", 1,
     "machines come from Kubernetes: write numMachines and processesPerMachine.", true},
    {"reset-limit elastic-timeout", 1, "the whole gang restarts in place (failurePolicy)."},
    {"blacklist-cooldown-range", 2, "failurePolicy limits how often machines are replaced."},
    {"p ssh-port i ssh-identity-file", 1, kNoNetwork},
    {"network-interface network-interfaces nics", 1, kNoNetwork},
    {"gloo mpi jsrun tcp", 0, kOverGloo},
    {"mpi-args mpi-threads-disable", 1, kOverGloo},
    {"start-timeout", 1, "write health.startTimeout."},
    {"output-filename", 1, kOutput},
    {"prefix-output-with-timestamp", 0, kOutput},
    {"verbose", 0, kNothing},
    {"disable-cache check-build cb version v", 0, kNothing},
    {"config-file", 1, kOfHorovod},
    {"binding-args", 1, kBinding},
    {"fusion-threshold-mb cycle-time-ms cache-capacity", 1, kOfHorovod},
    {"hierarchical-allreduce no-hierarchical-allreduce hierarchical-allgather "
     "no-hierarchical-allgather torus-allreduce no-torus-allreduce",
     0, kOfHorovod},
    {"autotune no-autotune", 0, kOfHorovod},
    {"autotune-log-file autotune-warmup-samples autotune-steps-per-sample", 1, kOfHorovod},
    {"autotune-bayes-opt-max-samples autotune-gaussian-process-noise", 1, kOfHorovod},
    {"timeline-filename", 1, kOfHorovod},
    {"timeline-mark-cycles no-timeline-mark-cycles", 0, kOfHorovod},
    {"no-stall-check stall-check", 0, kOfHorovod},
    {"stall-check-warning-time-seconds stall-check-shutdown-time-seconds", 1,
     "write health.hangTimeout."},
    {"num-nccl-streams thread-affinity", 1, kOfHorovod},
    {"log-level", 1, kOfHorovod},
    {"log-with-timestamp log-without-timestamp log-hide-timestamp", 0, kNothing},
    {"gloo-timeout-seconds", 1, kOfHorovod},
});

// a:4,b:4 or a,b: how many machines, and how many processes on each, where all say the same.
void ReadHosts(const std::string& text, Size& size, JobBuilder& builder) {
  std::vector<std::string> names;
  std::vector<std::string> slots;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string host = text.substr(at, comma - at);
    const size_t colon = std::min(host.find(':'), host.size());
    if (!host.empty()) {
      names.push_back(host.substr(0, colon));
      slots.push_back(host.substr(std::min(colon + 1, host.size())));
    }
    at = comma + 1;
  }
  builder.Remark(
      "The hosts " + text +
      " are not carried over, only their number: machines are nodes that Kubernetes chooses.");
  const size_t entries = names.size();
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  if (names.empty()) return;
  size.machines = static_cast<int64_t>(names.size());
  const bool equal = std::all_of(slots.begin(), slots.end(),
                                 [&](const std::string& slot) { return slot == slots[0]; });
  // Open MPI: a host named twice has two slots.
  const auto repeated = static_cast<int64_t>(entries / names.size());
  if (equal && slots[0].empty()) {
    if (repeated > 1) size.per_machine = repeated;
  } else if (const auto slot = ParseNumber<int64_t>(slots[0]); equal && slot && *slot > 0) {
    size.per_machine = *slot * repeated;
  } else {
    builder.Warn(
        "the hosts have unequal slots; every machine of a TrainingJob runs the same number of "
        "processes.");
  }
}

// ppr:4:node is a number for each machine; all else is about places.
void ReadMapBy(const std::string& text, Size& size, JobBuilder& builder) {
  const size_t end = text.find(":node");
  if (text.starts_with("ppr:") && end != std::string::npos && end > 4) {
    if (const auto count = ParseNumber<int64_t>(std::string_view(text).substr(4, end - 4));
        count && *count > 0) {
      size.per_machine = count;
      return;
    }
  }
  if (IsOneOf(text, {"slot", "core", ":OVERSUBSCRIBE"})) return;
  if (text.starts_with("ppr:")) {
    builder.Warn("mpirun: --map-by " + text + " is not carried over: " + std::string(kPerPlace));
    return;
  }
  builder.Remark("mpirun: --map-by " + text + " is not carried over: " + std::string(kOfMpirun));
}

// NAME=VALUE becomes env; a NAME alone is taken from where mpirun starts.
void ReadExport(const std::string& text, JobBuilder& builder) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos) {
    const auto& env = builder.job.spec.env;
    const bool known = std::any_of(env.begin(), env.end(),
                                   [&](const core::EnvVar& entry) { return entry.name == text; });
    if (core::IsReserved(text)) {
      builder.SetExport(text, "");
    } else if (!known) {
      builder.Remark("mpirun: -x " + text +
                     " is not carried over: its value comes from the shell; write it as env.");
    }
    return;
  }
  builder.SetExport(text.substr(0, equals), text.substr(equals + 1));
}

// Open MPI reads its parameters from the environment, too. How machines are reached is Lockstep's.
void ReadParameter(const Option& option, JobBuilder& builder) {
  const size_t blank = option.value.find(' ');
  const std::string name = option.value.substr(0, blank);
  if (name.starts_with("plm") || name.starts_with("orte_") || name.starts_with("ess")) {
    builder.Remark("mpirun: --mca " + option.value +
                   " is not carried over: machines are reached "
                   "by Lockstep's agents.");
    return;
  }
  const std::string prefix = option.name == "mca" ? "OMPI_MCA_" : "PRTE_MCA_";
  builder.SetExport(prefix + name, option.value.substr(blank + 1));
}

void ReadMpirunOption(const Option& option, Size& size, JobBuilder& builder) {
  const std::string& name = option.name;
  if (name == "np") {
    size.total = CountOf(option, {}, builder);
  } else if (name == "npernode") {
    size.per_machine = CountOf(option, {}, builder);
  } else if (name == "pernode") {
    size.per_machine = 1;
  } else if (name == "map-by") {
    ReadMapBy(option.value, size, builder);
  } else if (name == "host") {
    ReadHosts(option.value, size, builder);
  } else if (name == "hostfile") {
    if (!size.machines) builder.RemarkHostfile(option.value);
  } else if (name == "x") {
    ReadExport(option.value, builder);
  } else if (name == "env") {
    const size_t end = option.value.find_first_of(" =");
    builder.SetExport(option.value.substr(0, end), option.value.substr(end + 1));
  } else if (name == "mca" || name == "pmca") {
    ReadParameter(option, builder);
  } else if (name == "wdir") {
    builder.job.spec.working_dir = option.value;
  } else if (name == "gpus-per-proc" && option.value != "auto") {
    const auto gpus = CountOf(option, {}, builder, 0);
    builder.job.spec.resources_per_process.gpu = static_cast<int>(gpus.value_or(0));
  }
}

// Open MPI 5 takes the first of two numbers of processes, and MPICH takes neither.
void RefuseTwoSizes(const CommandLine& line, JobBuilder& builder) {
  for (const char* name : {"np", "npernode", "map-by", "host"}) {
    const Option* first = nullptr;
    for (const Option& option : line.options) {
      if (option.name != name) continue;
      if (first == nullptr) first = &option;
      if (option.value == first->value) continue;
      builder.Error(option.said, {},
                    "appears twice, as " + first->value + " and as " + option.value +
                        (option.name == "host" ? "; name all hosts in one, separated by commas"
                                               : "; keep one of them"));
      return;
    }
  }
}

}  // namespace

void ConvertMpirun(const std::string& program, const std::vector<std::string>& arguments, Size size,
                   JobBuilder& builder) {
  const size_t said_by_others = builder.error_count();
  const CommandLine line =
      ReadLauncherOptions(arguments, {"mpirun", Style::kWords, kMpirun}, {}, builder);
  RefuseTwoSizes(line, builder);
  if (builder.error_count() > said_by_others) return;
  for (const Option& option : line.options) ReadMpirunOption(option, size, builder);
  if (std::find(line.program.begin(), line.program.end(), ":") != line.program.end()) {
    builder.Error(":", {}, "a TrainingJob runs one program; write one TrainingJob for each");
    return;
  }
  if (!size.total && !size.per_machine) {
    builder.Warn(
        "mpirun is given no number of processes, which means one for each slot or core that "
        "it finds: write processesPerMachine.");
  }
  builder.SetSize(size, "mpirun", {});
  SetProgram(line, {.no_python = true}, builder);
  builder.RemarkNoGpus("mpirun");
  core::Spec& spec = builder.job.spec;
  std::vector<std::string> launcher = {program};
  if (size.total || size.per_machine) {
    launcher.insert(launcher.end(), {"-np", std::to_string(core::WorldSize(spec))});
  }
  spec.command.insert(spec.command.begin(), launcher.begin(), launcher.end());
  spec.framework = core::Framework::kMpi;
  builder.Remark(
      "mpirun still starts the ranks, from machine 0 and without ssh (framework: Mpi): write "
      "no hosts into its command.");
}

void ConvertHorovodrun(const std::vector<std::string>& arguments, Size size, JobBuilder& builder) {
  const size_t said_by_others = builder.error_count();
  const CommandLine line =
      ReadLauncherOptions(arguments, {"horovodrun", Style::kArgparse, kHorovodrun}, {}, builder);
  if (builder.error_count() > said_by_others) return;
  for (const Option& option : line.options) {
    if (option.name == "np") {
      size.total = CountOf(option, {}, builder);
    } else if (option.name == "hosts") {
      ReadHosts(option.value, size, builder);
    } else if (!size.machines) {
      builder.RemarkHostfile(option.value);
    }
  }
  if (!size.total && !size.per_machine) {
    builder.Warn(
        "horovodrun is given no number of processes, which means what its hosts or an elastic job "
        "have: write numMachines and processesPerMachine.");
  }
  builder.SetSize(size, "horovodrun", {});
  SetProgram(line, {.no_python = true}, builder);
  builder.RemarkNoGpus("horovodrun");
  builder.job.spec.framework = core::Framework::kHorovod;
  builder.Remark(
      "the agents start the ranks, and serve what Horovod asks horovodrun for, over Gloo "
      "(framework: Horovod).");
}

}  // namespace lockstep::convert
