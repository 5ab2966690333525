#include "cli/convert/slurm_options.h"

#include <algorithm>
#include <array>

#include "base/text/quantity.h"
#include "cli/convert/launcher_options.h"
#include "cli/convert/machine_resources.h"

namespace lockstep::convert {
namespace {

constexpr std::string_view kQueue =
    "queues are the cluster's: write priorityClassName, schedulerName, or labels of its queue.";
constexpr std::string_view kWhichNodes =
    "write template.spec.nodeSelector or affinity, with labels of the cluster's nodes.";
constexpr std::string_view kVolumes = "write volumes and mounts in the template.";
constexpr std::string_view kWhen =
    "jobs begin when their machines are ready; `suspend` holds a job.";
constexpr std::string_view kOwner = "the cluster decides who may submit.";

constexpr std::string_view kEnvironment = "a job's environment is in its env alone.";
constexpr std::string_view kInImageOrCommand = "put it into the image or the command.";
constexpr std::string_view kPerSocket =
    "the nodes decide the number of processes: write numMachines and processesPerMachine.";

// What sbatch and srun both have, in the words of either.
constexpr auto kSlurm = std::to_array<KnownOption>({
    {"nodes N", 1, kUsed},
    {"ntasks n", 1, kUsed},
    {"ntasks-per-node tasks-per-node", 1, kUsed},
    {"ntasks-per-gpu", 1, kUsed},
    {"cpus-per-task c", 1, kUsed},
    {"cpus-per-gpu", 1, kUsed},
    {"gpus G", 1, kUsed},
    {"gpus-per-node", 1, kUsed},
    {"gpus-per-task", 1, kUsed},
    {"gres", 1, kUsed},
    {"mem", 1, kUsed},
    {"mem-per-cpu", 1, kUsed},
    {"mem-per-gpu", 1, kUsed},
    {"time t", 1, kUsed},
    {"signal", 1, kUsed},
    {"requeue", 0, kUsed},
    {"no-requeue", 0, kUsed},
    {"exclusive", kAttached, kUsed},
    {"job-name J", 1, kUsed},
    {"chdir D container-workdir", 1, kUsed},
    {"array a", 1, kUsed},
    {"container-image", 1, kUsed},
    {"input i", 1, kUsed},
    {"nodelist w", 1, kUsed},
    {"nodefile F", 1, kUsed},
    {"mpi", 1,
     "a program that calls MPICH or Intel MPI needs framework: Mpi with mpi.start: Pmi; one that "
     "calls Open MPI needs mpi.start: Pmix."},
    {"partition p", 1, kQueue},
    {"account A qos q reservation wckey licenses L clusters M cluster", 1, kQueue},
    {"nice", kAttached, kQueue},
    {"priority", 1, kQueue},
    {"constraint C prefer cluster-constraint tmp exclude x", 1, kWhichNodes},
    {"switches", 1, "write placement.topologyKey."},
    {"contiguous spread-job use-min-nodes", 0, "write placement.topologyKey."},
    {"output o error e open-mode", 1, kOutput},
    {"verbose v quiet Q no-bell bell", 0, kNothing},
    {"mail-type mail-user", 1, "watch status.state, or the operator's metrics."},
    {"dependency d begin b deadline delay-boot", 1, kWhen},
    {"hold H test-only", 0, kWhen},
    {"export", 1, kUsed},
    {"export-file", 1, kEnvironment},
    {"cpu-bind mem-bind gpu-bind tres-bind hint distribution m threads-per-core cores-per-socket "
     "sockets-per-node ntasks-per-core extra-node-info B mincpus cpu-freq gres-flags core-spec S "
     "thread-spec accel-bind",
     1, kBinding},
    {"ntasks-per-socket gpus-per-socket", 1, kPerSocket, true},
    {"tres-per-task", 1, "write resourcesPerProcess.", true},
    {"gpu-freq profile acctg-freq power network comment mcs-label bb bbf extra container "
     "time-min",
     1, kNotHere},
    {"propagate", kAttached, kNothing},
    {"overcommit O oversubscribe s", 0, kNothing},
    {"immediate I x11", kAttached, kNothing},
    {"no-kill k", kAttached, "when a machine is lost it is replaced (failurePolicy)."},
    {"container-mounts", 1, kVolumes},
    {"container-name container-save container-env", 1, "a pod's container is new each time."},
    {"container-mount-home no-container-mount-home container-remap-root no-container-remap-root "
     "container-writable container-readonly container-entrypoint no-container-entrypoint",
     0, "write the container's settings in the template."},
    {"uid gid jobid", 1, kOwner},
    {"reboot", 0, kOwner},
});

constexpr auto kSbatch = std::to_array<KnownOption>({
    {"wait W", 0, kWhen},
    {"parsable ignore-pbs", 0, kNothing},
    {"wait-all-nodes", 1, kNothing},
    {"get-user-env", kAttached, kEnvironment},
    {"batch", 1, kWhichNodes},
    {"kill-on-invalid-dep", 1, kWhen},
    {"wrap", 1, "write the command."},
});

constexpr auto kSrun = std::to_array<KnownOption>({
    {"multi-prog", 0, kUsed},
    {"wait W", 1, "when a rank ends, failurePolicy decides what the others do."},
    {"kill-on-bad-exit K", kAttached, kNothing},
    {"label l unbuffered u overlap exact disable-status X interactive quit-on-interrupt", 0,
     kNothing},
    {"pty", kAttached, kNothing},
    {"no-allocate Z", 0, kOwner},
    {"preserve-env E", 0, kEnvironment},
    {"task-prolog task-epilog prolog epilog", 1, kInImageOrCommand},
    {"bcast send-libs", kAttached, kInImageOrCommand},
    {"relative r threads T treewidth slurmd-debug bcast-exclude", 1, kNotHere},
    {"compress resv-ports", kAttached, kNothing},
    {"het-group", 1, "a TrainingJob has equal parts: write one TrainingJob for each.", true},
});

constexpr int64_t kMinute = 60;
constexpr int64_t kHour = 60 * kMinute;
constexpr int64_t kDay = 24 * kHour;

std::vector<std::string> Parts(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// minutes, minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:seconds]], in seconds.
std::optional<int64_t> ReadTime(const std::string& text) {
  const size_t dash = text.find('-');
  const bool has_days = dash != std::string::npos;
  std::vector<std::string> parts = Parts(has_days ? text.substr(dash + 1) : text, ':');
  if (has_days) parts.insert(parts.begin(), text.substr(0, dash));
  if (parts.size() > (has_days ? 4U : 3U)) return std::nullopt;
  constexpr std::array<int64_t, 4> kFromDays = {kDay, kHour, kMinute, 1};
  const size_t first = has_days ? 0 : parts.size() == 3 ? 1 : 2;
  int64_t seconds = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::optional<int32_t> number = ParseNumber<int32_t>(parts[i]);
    if (!number || *number < 0) return std::nullopt;
    seconds += *number * kFromDays.at(first + i);
  }
  return seconds;
}

// 64G, 64000 (MiB), 2T as a Quantity; empty when it is no amount.
std::string ReadMemory(std::string text) {
  if (!text.empty() && (text.back() == 'B' || text.back() == 'b')) text.pop_back();
  if (text.empty()) return {};
  const char unit = text.back();
  const bool has_unit = !IsDigit(unit);
  const std::string_view digits =
      std::string_view(text).substr(0, text.size() - (has_unit ? 1 : 0));
  const std::optional<int64_t> number = ParseNumber<int64_t>(digits);
  const std::string units = "KMGTkmgt";
  if (!number || *number < 0 || (has_unit && units.find(unit) == std::string::npos)) return {};
  const char upper = has_unit ? "KMGTKMGT"[units.find(unit)] : 'M';
  const std::string quantity = std::to_string(*number) + upper + "i";
  return Quantity::Parse(quantity).ok() ? quantity : std::string();
}

class SlurmOptions {
 public:
  SlurmOptions(const char* launcher, Position position, SlurmAllocation& allocation,
               JobBuilder& builder)
      : launcher_(launcher), position_(position), allocation_(allocation), builder_(builder) {}

  void Apply(const Option& option) {
    const std::string& name = option.name;
    if (name == "nodes") return Nodes(option);
    for (const auto& [known, count] : counts_) {
      if (known != name) continue;
      allocation_.*count = CountOf(option, position_, builder_);
      return;
    }
    if (name.starts_with("gpus")) return Gpus(option);
    if (name == "gres") return Gres(option);
    if (name.starts_with("mem")) return Memory(option);
    Other(option);
  }

 private:
  static constexpr std::array<
      std::pair<std::string_view, std::optional<int64_t> SlurmAllocation::*>, 5>
      counts_ = {{{"ntasks", &SlurmAllocation::tasks},
                  {"ntasks-per-node", &SlurmAllocation::tasks_per_node},
                  {"ntasks-per-gpu", &SlurmAllocation::tasks_per_gpu},
                  {"cpus-per-task", &SlurmAllocation::cpus_per_task},
                  {"cpus-per-gpu", &SlurmAllocation::cpus_per_gpu}}};

  // 4, or 2-4 of a job that takes what it gets.
  void Nodes(const Option& option) {
    const size_t dash = option.value.find('-');
    const std::string most =
        dash == std::string::npos ? option.value : option.value.substr(dash + 1);
    allocation_.nodes = CountOf({option.name, most, option.said}, position_, builder_);
    if (dash != std::string::npos) {
      builder_.Remark(Said(option) + ": the job runs on " + most + " machines always.");
    }
  }

  // 4, a100:4
  void Gpus(const Option& option) {
    const size_t colon = option.value.rfind(':');
    const std::string count =
        colon == std::string::npos ? option.value : option.value.substr(colon + 1);
    const auto gpus = CountOf({option.name, count, option.said}, position_, builder_, 0);
    (option.name == "gpus"            ? allocation_.gpus
     : option.name == "gpus-per-node" ? allocation_.gpus_per_node
                                      : allocation_.gpus_per_task) = gpus;
    if (colon != std::string::npos) KindOfGpus(option.value.substr(0, colon));
  }

  void KindOfGpus(const std::string& kind) {
    builder_.Remark("The kind of GPU, " + kind +
                    ", is not carried over: " + std::string(kWhichNodes));
  }

  // gpu:4, gpu:a100:4, gpu, and others behind commas
  void Gres(const Option& option) {
    for (const std::string& each : Parts(option.value, ',')) {
      if (each == "none") continue;
      const std::vector<std::string> parts =
          Parts(std::string_view(each).substr(0, each.find('(')), ':');
      if (parts[0] != "gpu") {
        builder_.Remark(std::string(launcher_) + ": " + option.said + " " + each +
                        " is not carried over: write resourcesPerMachine.");
        continue;
      }
      const bool has_count = parts.size() > 1 && !parts.back().empty() && IsDigit(parts.back()[0]);
      allocation_.gpus_per_node =
          has_count ? CountOf({option.name, parts.back(), option.said}, position_, builder_, 0)
                    : std::optional<int64_t>(1);
      if (parts.size() > (has_count ? 2U : 1U)) KindOfGpus(parts[1]);
    }
  }

  void Memory(const Option& option) {
    if (option.value == "0") {
      builder_.Remark(Said(option) +
                      " means all memory of a node: write resourcesPerProcess.memory.");
      return;
    }
    const std::string memory = ReadMemory(option.value);
    if (memory.empty()) {
      builder_.Error(
          option.said, position_,
          "\"" + option.value + "\" is not an amount of memory, as in 64G or 64000 (MiB)");
      return;
    }
    (option.name == "mem"           ? allocation_.memory
     : option.name == "mem-per-cpu" ? allocation_.memory_per_cpu
                                    : allocation_.memory_per_gpu) = memory;
  }

  void Other(const Option& option) {
    const std::string& name = option.name;
    core::Spec& spec = builder_.job.spec;
    if (name == "time") {
      Time(option);
    } else if (name == "signal") {
      Signal(option);
    } else if (name == "requeue") {
      builder_.Remark(
          "--requeue: lost machines are replaced and the gang restarts in place "
          "(failurePolicy); the script must resume from its checkpoint by itself.");
    } else if (name == "no-requeue") {
      spec.failure_policy.max_restarts = 0;
      builder_.Remark("--no-requeue is carried over as failurePolicy.maxRestarts: 0.");
    } else if (name == "exclusive") {
      spec.placement.one_per_node = core::OnePerNode::kRequired;
      builder_.Remark(
          "--exclusive is carried over as placement.onePerNode: Required; other pods may run on "
          "the node if requests leave room.");
    } else if (name == "job-name") {
      builder_.job.metadata.name = JobName(option.value);
    } else if (name == "chdir") {
      spec.working_dir = option.value;
    } else if (name == "nodelist" || name == "nodefile") {
      allocation_.named_nodes = Said(option);
      builder_.Remark(std::string(launcher_) + ": " + Said(option) +
                      " is not carried over: " + std::string(kWhichNodes));
    } else if (name == "input") {
      Input(option);
    } else if (name == "export") {
      Export(option);
    } else if (name == "array") {
      builder_.Remark(Said(option) +
                      " is not carried over: this is one job; write one job for each element, with "
                      "its own name and SLURM_ARRAY_TASK_ID as a word of the command.");
    } else if (name == "container-image") {
      spec.image = option.value;
      std::replace(spec.image.begin(), spec.image.end(), '#', '/');
      builder_.Remark(Said(option) + " is carried over as image; a file can't be one.");
    } else {
      builder_.Error(option.said, position_,
                     "a TrainingJob runs one program; write one TrainingJob for each");
    }
  }

  // ALL, NONE, names of variables and NAME=VALUE.
  void Export(const Option& option) {
    bool others = false;
    for (const std::string& each : Parts(option.value, ',')) {
      const size_t equals = each.find('=');
      if (equals != std::string::npos && equals > 0) {
        builder_.SetExport(each.substr(0, equals), each.substr(equals + 1));
      } else {
        others = others || each != "ALL";
      }
    }
    if (!others) return;
    builder_.Remark(std::string(launcher_) + ": " + Said(option) +
                    " is not carried over, only its values: " + std::string(kEnvironment));
  }

  // A file, none, or the number of a task, whose input is srun's own.
  void Input(const Option& option) {
    if (IsOneOf(option.value, {"none", "/dev/null", "all"}) || ParseNumber<int64_t>(option.value)) {
      return;
    }
    builder_.Error(option.said, position_,
                   "no rank reads a standard input; let the program open " + option.value);
  }

  void Time(const Option& option) {
    const std::optional<int64_t> seconds = ReadTime(option.value);
    if (IsOneOf(ToLower(option.value), {"0", "unlimited", "infinite"})) return;
    if (!seconds || *seconds < 1) {
      builder_.Error(option.said, position_,
                     "\"" + option.value +
                         "\" is not a time, as in 90 (minutes), 1:30:00 or 2-12 (days and hours)");
      return;
    }
    builder_.job.spec.active_deadline_seconds = *seconds;
    builder_.Remark(Said(option) +
                    " is carried over as activeDeadlineSeconds, which a restart does not reset.");
  }

  // [R|B:]SIGNAL[@SECONDS]
  void Signal(const Option& option) {
    const size_t at = option.value.find('@');
    constexpr int64_t kSlurmsDefault = 60;
    const auto seconds =
        at == std::string::npos
            ? std::optional<int64_t>(kSlurmsDefault)
            : CountOf({option.name, option.value.substr(at + 1), option.said}, position_, builder_);
    if (!seconds) return;
    builder_.job.spec.grace_period = lockstep::seconds(*seconds);
    builder_.Remark(Said(option) +
                    " is carried over as gracePeriod: a stop sends SIGTERM, not "
                    "another signal, to every rank, and SIGKILL when that time is over.");
  }

  // A job's name: lower-case letters, digits and dashes, a letter first.
  static std::string JobName(const std::string& text) {
    std::string name;
    for (const char c : ToLower(text)) {
      const bool fits = IsDigit(c) || (c >= 'a' && c <= 'z');
      name += fits ? c : '-';
    }
    constexpr size_t kLongest = 40;
    name = Trim(name.substr(0, kLongest), "-");
    if (name.empty() || IsDigit(name[0])) name = "job-" + name.substr(0, kLongest - 4);
    return std::string(Trim(name, "-"));
  }

  std::string Said(const Option& option) const {
    return option.said + (option.value.empty() ? "" : " " + option.value);
  }

  const char* const launcher_;
  const Position position_;
  SlurmAllocation& allocation_;
  JobBuilder& builder_;
};

// `amount` of each, `times` of them.
void AddMemory(const std::string& amount, int64_t times, Position position,
               MachineResources& machine, JobBuilder& builder) {
  if (amount.empty()) return;
  const Result<Quantity> one = Quantity::Parse(amount);
  const Result<Quantity> all = one.ok() ? one->Times(times) : one;
  if (!all.ok()) return builder.Error("mem", position, "is more memory than a machine can have");
  machine.Add("memory", all->ToString(), position);
}

}  // namespace

int64_t SlurmAllocation::Nodes() const {
  if (nodes) return *nodes;
  if (tasks && tasks_per_node) return (*tasks + *tasks_per_node - 1) / *tasks_per_node;
  if (gpus && gpus_per_node && *gpus_per_node > 0) {
    return std::max<int64_t>(1, (*gpus + *gpus_per_node - 1) / *gpus_per_node);
  }
  return 1;
}

std::optional<int64_t> SlurmAllocation::Tasks() const {
  if (tasks || !tasks_per_gpu) return tasks;
  if (gpus) return *gpus * *tasks_per_gpu;
  if (gpus_per_node) return *gpus_per_node * Nodes() * *tasks_per_gpu;
  return std::nullopt;
}

int64_t SlurmAllocation::TasksPerNode() const {
  if (tasks_per_node) return *tasks_per_node;
  const std::optional<int64_t> all = Tasks();
  return all ? std::max<int64_t>(1, *all / Nodes()) : 1;
}

std::optional<int64_t> SlurmAllocation::GpusPerNode() const {
  if (gpus_per_node) return gpus_per_node;
  if (gpus) return *gpus > 0 ? std::max<int64_t>(1, *gpus / Nodes()) : 0;
  if (gpus_per_task) return *gpus_per_task * TasksPerNode();
  if (tasks_per_gpu && tasks) return std::max<int64_t>(1, TasksPerNode() / *tasks_per_gpu);
  return std::nullopt;
}

Size SlurmAllocation::TaskSize() const {
  const bool by_gpus = !nodes && gpus && gpus_per_node;
  return {.machines = by_gpus ? std::optional(Nodes()) : nodes,
          .per_machine = tasks_per_node,
          .total = Tasks()};
}

void SlurmAllocation::WarnOfNamedNodes(JobBuilder& builder) const {
  if (nodes || named_nodes.empty() || (tasks && tasks_per_node)) return;
  builder.Warn(named_nodes +
               " names nodes, but --nodes does not give their number: write it as numMachines.");
}

std::vector<std::string> ReadSlurmOptions(const std::vector<std::string>& words,
                                          const char* launcher, Position position,
                                          SlurmAllocation& allocation, JobBuilder& builder) {
  const bool is_srun = launcher == std::string_view("srun");
  const auto own = is_srun ? std::span<const KnownOption>(kSrun) : kSbatch;
  const CommandLine line =
      ReadLauncherOptions(words, {launcher, Style::kGetopt, kSlurm, own}, position, builder);
  SlurmOptions options(launcher, position, allocation, builder);
  for (const Option& option : line.options) options.Apply(option);
  return line.program;
}

void WriteSlurmResources(const SlurmAllocation& allocation, JobBuilder& builder) {
  MachineResources machine;
  const int64_t tasks = allocation.TasksPerNode();
  const std::optional<int64_t> gpus = allocation.GpusPerNode();
  if (gpus && *gpus > 0) machine.Add("nvidia.com/gpu", std::to_string(*gpus), {});
  if (allocation.cpus_per_task) {
    machine.Add("cpu", std::to_string(*allocation.cpus_per_task * tasks), {});
  } else if (allocation.cpus_per_gpu && gpus) {
    machine.Add("cpu", std::to_string(*allocation.cpus_per_gpu * *gpus), {});
  }
  AddMemory(allocation.memory, 1, {}, machine, builder);
  AddMemory(allocation.memory_per_cpu, allocation.cpus_per_task.value_or(1) * tasks, {}, machine,
            builder);
  AddMemory(allocation.memory_per_gpu, gpus.value_or(1), {}, machine, builder);
  machine.Write(builder);
}

}  // namespace lockstep::convert
