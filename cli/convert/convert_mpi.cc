// Command lines of mpirun (Open MPI, MPICH, Intel MPI) and horovodrun. mpirun goes on starting the
// ranks (framework: Mpi), over all machines of the job. Horovod's are started without horovodrun
// (framework: Horovod).
#include <algorithm>
#include <array>

#include "cli/convert/launcher_options.h"
#include "core/plan/environment.h"

namespace lockstep::convert {
namespace {

constexpr std::string_view kNoNetwork =
    "ranks find each other by MASTER_ADDR and MASTER_PORT, without ssh or an MPI.";
constexpr std::string_view kOfMpirun = "write it into the command, should it still be wanted.";
constexpr std::string_view kOfHorovod =
    "write it into env by Horovod's own variable, as HOROVOD_FUSION_THRESHOLD.";
constexpr std::string_view kPerPlace =
    "it says how many processes run where: write numMachines and processesPerMachine.";
constexpr std::string_view kOwnNodes = "machines are nodes that Kubernetes chooses.";
constexpr std::string_view kDebugger = "`kubectl lockstep debug` shows where every rank stands.";
constexpr std::string_view kOverGloo = "Horovod's controller is Gloo's.";
constexpr std::string_view kNoInput = "no rank reads standard input.";

constexpr auto kMpirun = std::to_array<KnownOption>({
    {"np n c", 1, kUsed},
    {"npernode N ppn perhost ranks-per-node", 1, kUsed},
    {"map-by", 1, kUsed},
    {"host H hosts", 1, kUsed},
    {"hostfile machinefile f default-hostfile", 1, kUsed},
    {"gpus-per-proc", 1, kUsed},
    {"x", 1, kUsed},
    {"env genv", kVariable, kUsed},
    {"wdir wd", 1, kUsed},
    {"genvlist envlist", 1, "the environment of a job stands in its env; write them there."},
    {"genvall envall genvnone envnone", 0, kNothing},
    {"mca gmca", 2, kUsed},
    {"pmca prtemca", 2, kUsed},
    {"tune am personality membind memory-alloc-kinds", 1, kOfMpirun},
    {"prefix", 1, "the program and its libraries stand in the image."},
    {"path", 1, "the program and its libraries stand in the image."},
    {"bind-to", 1, kOfMpirun},
    {"rank-by", 1, kOfMpirun},
    {"bynode", 0, kOfMpirun},
    {"byslot bycore", 0, kNothing},
    {"bind-to-core bind-to-socket bind-to-none", 0, kOfMpirun},
    {"cpus-per-proc cpus-per-rank", 1, "write resourcesPerProcess.cpu."},
    {"npersocket ppr", 1, kPerPlace, true},
    {"rr grr nolocal skip-launch-node", 0, kPerPlace, true},
    {"rankmap", 1, kPerPlace, true},
    {"cpu-set cpu-list", 1, kOfMpirun},
    {"report-bindings display-map display-allocation display-devel-map display-devel-allocation "
     "display-diffable-map display-topo show-progress get-stack-traces report-state-on-timeout "
     "report-child-jobs-separately index-argv-by-rank profile",
     0, kOfMpirun},
    {"display report-pid report-uri report-events", 1, kOfMpirun},
    {"set-cwd-to-session-dir", 0, "a rank begins in workingDir, and has a TMPDIR of its own."},
    {"do-not-launch", 0, kNotHere},
    {"max-vm-size", 1, kOwnNodes},
    {"order-nodes", 1, kOwnNodes},
    {"rankfile rf", 1, kPerPlace, true},
    {"oversubscribe nooversubscribe use-hwthread-cpus", 0, kNothing},
    {"allow-run-as-root", 0, kNothing},
    {"tag-output timestamp-output merge-stderr-to-stdout prepend-rank l q quiet v verbose d", 0,
     kNothing},
    {"output-filename outfile-pattern output errfile-pattern", 1, kOutput},
    {"xml", 0, kOutput},
    {"prepend-pattern xml-file xterm", 1, kOutput},
    {"stdin", 1, kNoInput},
    {"s", kRanksMayFollow, kNoInput},
    {"timeout", 1, "write activeDeadlineSeconds."},
    {"bootstrap launcher rmk", 1, kNoNetwork},
    {"bootstrap-exec launcher-exec", 1, kNoNetwork},
    {"iface nameserver ompi-server", 1, kNoNetwork},
    {"plm-rsh-agent launch-agent hnp", 1, kNoNetwork},
    {"enable-x disable-x pmi-port fwd-mpirun-port do-not-resolve disable-hostname-propagation dvm "
     "hybrid-hosts enable-instant-on-support use-regexp",
     0, kNoNetwork},
    {"novm noprefix", 0, kNothing},
    {"debug debug-devel debug-daemons debug-daemons-file tv leave-session-attached "
     "output-proctable",
     0, kDebugger},
    {"debugger", 1, kDebugger},
    {"disable-recovery", 0, kNothing},
    {"disable-auto-cleanup enable-recovery continuous", 0,
     "when a rank dies the whole gang restarts in place (failurePolicy)."},
    {"max-restarts", 1, "write failurePolicy.maxRestarts, which counts the job's restarts."},
    {"configfile app", 1, "several programs in one job are not there: one TrainingJob each.", true},
    {"preload-files preload-file-dest-dir cartofile cf", 1,
     "files stand in the image or on volumes."},
    {"preload-binary", 0, "the program stands in the image."},
    {"pernode", 0, kUsed},
    {"usize universe-size", 1, kOfMpirun},
    {"localhost", 1, kNothing},
    {"demux topolib", 1, kNothing},
    {"localroot", 0, kNothing},
    {"info version V help h", 0, kNothing},
    {"print-rank-map print-all-exitcodes", 0, kOfMpirun},
});

constexpr auto kHorovodrun = std::to_array<KnownOption>({
    {"np num-proc", 1, kUsed},
    {"hosts H", 1, kUsed},
    {"hostfile", 1, kUsed},
    {"min-np min-num-proc max-np max-num-proc slots-per-host slots", 1,
     "worlds don't change size by themselves; `kubectl scale` stops at a step and goes on.", true},
    {"host-discovery-script", 1,
     "machines come from Kubernetes: write numMachines and processesPerMachine.", true},
    {"reset-limit elastic-timeout", 1, "the whole gang restarts in place (failurePolicy)."},
    {"blacklist-cooldown-range", 2, "failurePolicy says how often machines are replaced."},
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
  builder.Remark("The hosts " + text +
                 " are not carried over but for their number: machines are "
                 "nodes that Kubernetes chooses.");
  const size_t entries = names.size();
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  if (names.empty()) return;
  size.machines = static_cast<int64_t>(names.size());
  const bool equal = std::all_of(slots.begin(), slots.end(),
                                 [&](const std::string& slot) { return slot == slots[0]; });
  // Open MPI: a host that stands there twice has two slots.
  const auto repeated = static_cast<int64_t>(entries / names.size());
  if (equal && slots[0].empty()) {
    if (repeated > 1) size.per_machine = repeated;
  } else if (const auto slot = ParseNumber<int64_t>(slots[0]); equal && slot && *slot > 0) {
    size.per_machine = *slot * repeated;
  } else {
    builder.Warn(
        "the hosts have unequal slots; every machine of a TrainingJob runs equally many "
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
                     " is not carried over: its value is that of the shell; "
                     "write it as env.");
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
                    "stands here twice, as " + first->value + " and as " + option.value +
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
    builder.Error(":", {}, "several programs in one job are not there; write one TrainingJob each");
    return;
  }
  if (!size.total && !size.per_machine) {
    builder.Warn(
        "mpirun says no number of processes, which means one for each slot or core that "
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
      "mpirun goes on starting the ranks, from machine 0 and without ssh (framework: Mpi): write "
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
        "horovodrun says no number of processes, which means what its hosts or an elastic job "
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
