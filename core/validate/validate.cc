#include "core/validate/validate.h"

#include <re2/re2.h>

#include <concepts>
#include <cstdint>
#include <set>
#include <string_view>
#include <type_traits>

#include "base/text/ascii.h"
#include "base/text/duration.h"
#include "base/text/index_list.h"
#include "core/model/fields.h"
#include "core/model/launch.h"
#include "core/model/name_forms.h"
#include "core/model/shortcuts.h"
#include "core/plan/environment.h"
#include "core/plan/launcher.h"
#include "core/plan/mpirun.h"
#include "core/scan/patterns.h"
#include "core/validate/validator.h"

namespace lockstep::core {
namespace {

constexpr size_t kLongestJobName = 40;  // leaves room for "-1023-r1234567" in a pod's 63
// TF_CONFIG names each, and execve takes 128 KiB of one variable.
constexpr int64_t kMostTensorFlowWorkers = 2048;
constexpr int32_t kMostTensorFlowMachines = 1024;  // whose ports a message to them has room for

std::string Quote(const std::string& text) { return "the text \"" + text + "\""; }

void ValidateMetadata(Validator& validator) {
  const Metadata& metadata = validator.job.metadata;
  const std::string& name = metadata.name;
  if (name.empty()) {
    validator.Error("metadata.name", "is missing; write a name, as in \"name: gpt\"");
  } else if (!IsDnsLabel(name, kLongestJobName) || (name[0] >= '0' && name[0] <= '9')) {
    validator.Error(
        "metadata.name",
        "must be at most 40 lower-case letters, digits and dashes, begin with a letter and "
        "end with a letter or digit (a DNS-1035 label)",
        Quote(name));
  } else if (name.ends_with("-coordinator")) {
    validator.Error("metadata.name",
                    "must not end in -coordinator: the Services of another job have such names",
                    Quote(name));
  }
  if (!metadata.name_space.empty() && !IsDnsLabel(metadata.name_space)) {
    validator.Error("metadata.namespace",
                    "must be at most 63 lower-case letters, digits and dashes (a DNS-1123 label)",
                    Quote(metadata.name_space));
  }
}

// Errors for each number outside the limits that its field's table states.
template <typename T>
void ValidateNumbers(Validator& validator, const std::string& path, const T& value,
                     const Between* limits = nullptr) {
  if constexpr (std::integral<T>) {
    if (limits != nullptr) validator.Range(path, value, limits->least, limits->most);
  } else if constexpr (requires { value.has_value(); }) {
    if (value) ValidateNumbers(validator, path, *value, limits);
  } else if constexpr (HasFields<T>) {
    ForEachField<T>([&](const auto& field) {
      const Between* its_limits = nullptr;
      if constexpr (std::remove_cvref_t<decltype(field)>::template kHas<Between>) {
        its_limits = &field.template Get<Between>();
      }
      ValidateNumbers(validator, path + "." + std::string(field.name), value.*field.member,
                      its_limits);
    });
  } else if constexpr (requires {
                         typename T::allocator_type;
                         value[0];
                       }) {
    for (size_t i = 0; i < value.size(); ++i) {
      ValidateNumbers(validator, path + "[" + std::to_string(i) + "]", value[i], limits);
    }
  }
}

// One mpirun of the whole world is enough: others of a script may prepare it. A script that is a
// file may call mpirun where it can't be seen.
void ValidateMpirun(Validator& validator, const std::vector<std::string>& command) {
  std::string why;
  for (const auto& [launcher, words] : LaunchersOf(command)) {
    std::string other = OtherWorldOf(words, validator.job);
    if (other.empty()) return;
    if (why.empty()) why = std::move(other);
  }
  if (!why.empty()) validator.Error("spec.command", std::move(why));
}

void ValidateLauncher(Validator& validator, const Spec& spec) {
  std::vector<std::string> whole = spec.command;
  whole.insert(whole.end(), spec.args.begin(), spec.args.end());
  const bool from_machine0 = StartsFromMachine0(spec);
  const std::string unsupported = UnsupportedLauncherOf(whole, from_machine0);
  if (!unsupported.empty()) {
    validator.Error("spec.command", InPlaceOf(unsupported), unsupported);
    return;
  }
  if (from_machine0) return ValidateMpirun(validator, whole);
  const std::string launcher = LauncherOf(whole);
  if (launcher.empty() || spec.launch == Launch::kPerMachine) return;
  validator.Error("spec.command",
                  "set launch: PerMachine, or remove the launcher: with PerProcess each of the " +
                      std::to_string(spec.processes_per_machine) + " processes would be a " +
                      launcher + " that starts processesPerMachine more",
                  launcher);
}

// Their services know ranks, each of which is one process.
void ValidateServices(Validator& validator) {
  const Spec& spec = validator.job.spec;
  const bool horovod = spec.framework == Framework::kHorovod;
  if (spec.launch == Launch::kPerMachine && (horovod || ServesPmi(spec) || ServesPmix(spec))) {
    validator.Error("spec.launch",
                    std::string("must be PerProcess: with ") +
                        (horovod ? "framework: Horovod"
                                 : "mpi.start: " + std::string(ToString(spec.mpi.start))) +
                        " the agents start every rank themselves");
  }
  if (horovod && WorldSize(spec) > kMostHorovodRanks) {
    validator.Error("spec.numMachines",
                    "makes more than " + std::to_string(kMostHorovodRanks) +
                        " processes, which is the most that Horovod's rendezvous supports");
  }
}

void ValidateCommand(Validator& validator) {
  const Spec& spec = validator.job.spec;
  if (spec.command.empty()) {
    if (!spec.args.empty()) {
      validator.Error("spec.args", "needs spec.command; the image's own entry point is not used");
    }
    if (StartsFromMachine0(spec)) {
      validator.Error("spec.framework",
                      "Mpi needs spec.command, as in [mpirun, python, train.py]; the built-in "
                      "trainer does not use MPI");
    } else if (spec.launch == Launch::kPerMachine) {
      validator.Error("spec.launch",
                      "needs spec.command; the built-in trainer runs once for each process");
    }
    if (!spec.trainer) {
      validator.Error("spec.command",
                      "is missing; write the command of each process, as in [python, train.py], or "
                      "spec.trainer for the built-in trainer");
    }
    return;
  }
  if (spec.trainer) {
    validator.Error(
        "spec.trainer",
        "cannot be beside spec.command; keep one of them: the trainer runs if there is no command");
  }
  if (spec.command[0].empty()) {
    validator.Error("spec.command[0]", "must name a program, as in [python, train.py]");
  }
  if (!validator.local() && spec.image.empty()) {
    validator.Error("spec.image", "is missing; name the image that holds the command");
  }
  ValidateLauncher(validator, spec);
}

void ValidateTensorFlow(Validator& validator) {
  const Spec& spec = validator.job.spec;
  if (spec.framework != Framework::kTensorFlow) return;
  if (spec.launch == Launch::kPerMachine) {
    validator.Error("spec.launch",
                    "must be PerProcess with framework: TensorFlow, whose workers find each other "
                    "by TF_CONFIG; processesPerMachine: 1 is one worker a machine");
  }
  if (WorldSize(spec) > kMostTensorFlowWorkers) {
    validator.Error("spec.numMachines",
                    "makes more than 2048 workers, and TensorFlow's TF_CONFIG lists all of them",
                    std::to_string(WorldSize(spec)) + " workers");
  }
  if (spec.num_machines > kMostTensorFlowMachines) {
    validator.Error("spec.numMachines",
                    "must be at most 1024 with framework: TensorFlow, whose workers get the ports "
                    "of all machines");
  }
  const bool shares_gpus = spec.processes_per_machine > 1 && AsksForGpus(spec) &&
                           spec.topology.gpu_visibility != GpuVisibility::kIsolated;
  if (shares_gpus) {
    validator.Warn("spec.topology.gpuVisibility",
                   "write Isolated: each process of TensorFlow takes the memory of every GPU that "
                   "it sees, so a second process would find none");
  }
}

void ValidateEnvVar(Validator& validator, const std::string& path, const EnvVar& entry) {
  if (entry.name.empty()) {
    validator.Error(path + ".name", "is missing");
    return;
  }
  if (!IsVariableName(entry.name)) {
    validator.Error(path + ".name",
                    "must be letters, digits, '_', '-' and '.', and not begin with a digit",
                    Quote(entry.name));
  } else if (IsReserved(entry.name)) {
    validator.Error(path + ".name", "remove it: Lockstep sets it for every process",
                    Quote(entry.name));
  }
  if (entry.value_from.IsNull()) return;
  if (!entry.value.empty()) {
    validator.Error(path, "has both value and valueFrom; keep one of them");
  }
  if (validator.local()) {
    validator.Error(path + ".valueFrom",
                    "needs a cluster; write a value for `lockstep run`, which also hands its own "
                    "environment to every process");
  }
}

void ValidateEnv(Validator& validator) {
  const Spec& spec = validator.job.spec;
  std::set<std::string_view> seen;
  for (size_t i = 0; i < spec.env.size(); ++i) {
    const std::string path = "spec.env[" + std::to_string(i) + "]";
    ValidateEnvVar(validator, path, spec.env[i]);
    if (!seen.insert(spec.env[i].name).second) {
      validator.Error(path, spec.env[i].name + " appears twice; keep one of them");
    }
  }
  if (validator.local() && !spec.env_from.empty()) {
    validator.Error(
        "spec.envFrom",
        "needs a cluster; write the variables as spec.env for `lockstep run`, which also "
        "hands its own environment to every process");
  }
  for (size_t i = 0; i < spec.image_pull_secrets.size(); ++i) {
    if (IsDnsSubdomain(spec.image_pull_secrets[i].name)) continue;
    validator.Error("spec.imagePullSecrets[" + std::to_string(i) + "].name",
                    "must be the name of a Secret", Quote(spec.image_pull_secrets[i].name));
  }
}

// Same limit as the CRD's rule, which knows no numbers above 9999.
bool IsMapList(const std::string& text) {
  const Result<IndexList> list = ParseIndexList(text);
  return list.ok() && Trim(text) == text && (list->empty() || list->back() <= 9999);
}

void ValidateMap(Validator& validator, const Topology& topology) {
  const auto processes = static_cast<size_t>(validator.job.spec.processes_per_machine);
  if (topology.bind != Bind::kMap) {
    if (!topology.map.empty()) validator.Error("spec.topology.map", "needs bind: Map");
    return;
  }
  if (topology.map.size() != processes) {
    validator.Error("spec.topology.map", "must hold one entry for each of processesPerMachine (" +
                                             std::to_string(processes) + "), in order of rank");
  }
  for (size_t i = 0; i < topology.map.size(); ++i) {
    const std::string path = "spec.topology.map[" + std::to_string(i) + "]";
    const MappedProcess& process = topology.map[i];
    if (process.cpus.empty() || !IsMapList(process.cpus)) {
      validator.Error(path + ".cpus", "must be CPUs, as in 0-7,16-23", Quote(process.cpus));
    }
    if (!IsMapList(process.memory)) {
      validator.Error(path + ".memory", "must be NUMA nodes, as in 0 or 0-1",
                      Quote(process.memory));
    }
  }
}

void ValidateTopology(Validator& validator) {
  const Topology& topology = validator.job.spec.topology;
  if (topology.bind == Bind::kNone) {
    if (topology.memory_policy == MemoryPolicy::kStrict ||
        topology.memory_policy == MemoryPolicy::kInterleave) {
      validator.Error("spec.topology.memoryPolicy",
                      "needs processes that are bound: any bind but None");
    }
    if (topology.policy == TopologyPolicy::kRequired) {
      validator.Error("spec.topology.policy", "Required needs any bind but None");
    }
  }
  ValidateMap(validator, topology);
  const Placement& placement = validator.job.spec.placement;
  if (placement.topology_mode == TopologyMode::kRequired && placement.topology_key.empty()) {
    validator.Error("spec.placement.topologyMode",
                    "Required needs topologyKey, the node label whose value the machines share");
  }
  if (!placement.topology_key.empty() && !IsQualifiedName(placement.topology_key)) {
    validator.Error("spec.placement.topologyKey",
                    "must be a node label, as in topology.kubernetes.io/zone",
                    Quote(placement.topology_key));
  }
  if (!placement.topology_levels.empty() && placement.topology_key.empty()) {
    validator.Error("spec.placement.topologyLevels",
                    "needs topologyKey, the label of the nearest place");
  }
  for (size_t i = 0; i < placement.topology_levels.size(); ++i) {
    if (IsQualifiedName(placement.topology_levels[i])) continue;
    validator.Error("spec.placement.topologyLevels[" + std::to_string(i) + "]",
                    "must be a node label, as in topology.kubernetes.io/zone",
                    Quote(placement.topology_levels[i]));
  }
}

void ValidateCheckpoint(Validator& validator) {
  const Checkpoint& checkpoint = validator.job.spec.checkpoint;
  if (!checkpoint.claim.empty() && !IsDnsSubdomain(checkpoint.claim)) {
    validator.Error("spec.checkpoint.claim", "must be the name of a PersistentVolumeClaim",
                    Quote(checkpoint.claim));
  }
  if (!checkpoint.claim.empty() && checkpoint.path.empty()) {
    validator.Error("spec.checkpoint.path",
                    "is missing; write where the claim is mounted, as in "
                    "/checkpoints");
  }
  if (!validator.local() && !checkpoint.path.empty() && checkpoint.path[0] != '/') {
    validator.Error("spec.checkpoint.path", "must begin with / on a cluster",
                    Quote(checkpoint.path));
  }
  const std::string& resume = checkpoint.resume;
  if (checkpoint.path.empty() && checkpoint.url.empty() && resume.find('/') != std::string::npos) {
    validator.Error("spec.checkpoint.path",
                    "is missing beside the checkpoint that resume names; write this job's own "
                    "folder, as in /checkpoints");
  }
  if (resume != "Auto" && resume != "Never" && resume.find('/') == std::string::npos) {
    validator.Error("spec.checkpoint.resume",
                    "must be Auto, Never or a path that contains a /, as in ./" +
                        (resume.empty() ? "checkpoint" : resume),
                    Quote(resume));
  }
}

// s3://BUCKET/PREFIX, in characters that no client and no URL writes in another way. The CRD's rule
// has the same expression.
bool IsStoreUrl(const std::string& url) {
  static const RE2 kUrl(
      R"(s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9_=+][A-Za-z0-9._=+-]*)*)");
  return RE2::FullMatch(url, kUrl);
}

void ValidateObjectStore(Validator& validator) {
  const Checkpoint& checkpoint = validator.job.spec.checkpoint;
  if (checkpoint.url.empty()) {
    if (!checkpoint.secret.empty()) {
      validator.Error("spec.checkpoint.secret", "needs spec.checkpoint.url");
    }
    if (checkpoint.keep_every != Duration::zero()) {
      validator.Error("spec.checkpoint.keepEvery", "needs spec.checkpoint.url");
    }
    if (checkpoint.upload_bandwidth) {
      validator.Error("spec.checkpoint.uploadBandwidth", "needs spec.checkpoint.url");
    }
    return;
  }
  if (!IsStoreUrl(checkpoint.url)) {
    validator.Error(
        "spec.checkpoint.url",
        "must be s3://BUCKET/PREFIX: BUCKET in lower case, PREFIX of letters, digits and "
        "._=+-, without a slash at its end",
        Quote(checkpoint.url));
  }
  if (!checkpoint.memory.size) {
    validator.Error(
        "spec.checkpoint.memory.size",
        "is missing beside spec.checkpoint.url: processes write checkpoints to memory, "
        "and agents upload them; write as much as 4 times a machine's part, as in 16Gi");
  }
  if (!checkpoint.path.empty()) {
    validator.Error("spec.checkpoint.path",
                    "must be absent beside spec.checkpoint.url, which replaces the folder");
  }
  if (checkpoint.resume.find('/') != std::string::npos) {
    validator.Error("spec.checkpoint.resume", "must be Auto or Never with spec.checkpoint.url",
                    Quote(checkpoint.resume));
  }
  if (!checkpoint.secret.empty() && !IsDnsSubdomain(checkpoint.secret)) {
    validator.Error("spec.checkpoint.secret", "must be the name of a Secret",
                    Quote(checkpoint.secret));
  }
}

void ValidateOptionalTime(Validator& validator, const std::string& path, Duration time) {
  if (time == Duration::zero() || (time >= seconds(1) && time <= hours(168))) return;
  validator.Error(path, "must be 0s (off) or lie between 1s and 168h", FormatDuration(time));
}

void ValidatePrestart(Validator& validator) {
  const Spec& spec = validator.job.spec;
  for (size_t i = 0; i < spec.prestart_exclude.size(); ++i) {
    if (IsIdentifier(spec.prestart_exclude[i])) continue;
    validator.Error("spec.prestartExclude[" + std::to_string(i) + "]",
                    "must be a top-level package, as in torch", Quote(spec.prestart_exclude[i]));
  }
}

void ValidatePreflight(Validator& validator) {
  const Preflight& preflight = validator.job.spec.preflight;
  const std::string path = "spec.preflight.";
  if (preflight.margin <= 0 || preflight.margin > 1) {
    validator.Error(path + "margin", "must be above 0 and at most 1: 0.3 is 30 % below the median");
  }
  for (const auto& [name, least] : {std::pair("minGflops", preflight.min_gflops),
                                    std::pair("minMemoryGBps", preflight.min_memory_gbps),
                                    std::pair("minDiskGBps", preflight.min_disk_gbps),
                                    std::pair("minLinkGBps", preflight.min_link_gbps)}) {
    if (least < 0) validator.Error(path + name, "must be 0 (no limit) or more");
  }
}

void ValidateProgress(Validator& validator) {
  const Spec& spec = validator.job.spec;
  const std::string path = "spec.progress.patterns";
  for (size_t i = 0; i < spec.progress.patterns.size(); ++i) {
    const Result<CompiledPattern> pattern = CompileUserPattern(spec.progress.patterns[i]);
    if (pattern.ok()) continue;
    validator.Error(path + "[" + std::to_string(i) + "]", pattern.error().message,
                    Quote(spec.progress.patterns[i]));
  }
  const ProgressFrom from = spec.progress.from;
  const bool reads_output = from == ProgressFrom::kAuto || from == ProgressFrom::kOutput;
  if (!spec.progress.patterns.empty() && !reads_output) {
    validator.Error(path, "are read in output alone; write progress.from: Auto or Output");
  }
  if (from == ProgressFrom::kNever && spec.health.hang_timeout > Duration::zero()) {
    validator.Error(
        "spec.health.hangTimeout",
        "needs progress, and spec.progress.from is Never; write Auto, Reports or Output "
        "there");
  }
  if (from == ProgressFrom::kNever && spec.health.hang_action == HangAction::kRestart) {
    validator.Error("spec.health.hangAction",
                    "Restart needs progress, and spec.progress.from is Never; write Auto, Reports "
                    "or Output there");
  }
}

void ValidateTimes(Validator& validator) {
  const Spec& spec = validator.job.spec;
  validator.Range("spec.gracePeriod", spec.grace_period, seconds(0), hours(24));
  validator.Range("spec.health.startTimeout", spec.health.start_timeout, seconds(1), hours(168));
  ValidateOptionalTime(validator, "spec.health.hangTimeout", spec.health.hang_timeout);
  ValidateOptionalTime(validator, "spec.checkpoint.persistEvery", spec.checkpoint.persist_every);
  ValidateOptionalTime(validator, "spec.checkpoint.keepEvery", spec.checkpoint.keep_every);
}

void ValidateCluster(Validator& validator) {
  const Spec& spec = validator.job.spec;
  if (validator.local() && spec.suspend) {
    validator.Error("spec.suspend", "a suspended job cannot run; write false, or remove the line");
  }
  if (!spec.priority_class_name.empty() && !IsDnsSubdomain(spec.priority_class_name)) {
    validator.Error("spec.priorityClassName", "must be the name of a PriorityClass",
                    Quote(spec.priority_class_name));
  }
  if (!spec.scheduler_name.empty() && !IsDnsSubdomain(spec.scheduler_name)) {
    validator.Error("spec.schedulerName", "must be the name of a scheduler",
                    Quote(spec.scheduler_name));
  }
  const size_t slash = spec.managed_by.find('/');
  if (slash == std::string::npos || !IsDnsSubdomain(spec.managed_by.substr(0, slash)) ||
      slash + 1 == spec.managed_by.size()) {
    validator.Error("spec.managedBy", "must be a domain and a name, as in lockstep.dev/operator",
                    Quote(spec.managed_by));
  }
}

// All machines of `lockstep run` are this one.
void ValidateGpus(Validator& validator, int gpus) {
  const int64_t asked = validator.job.spec.resources_per_process.gpu.value_or(0);
  const int64_t world = WorldSize(validator.job.spec);
  if (asked <= 0 || world <= 0 || asked * world <= gpus) return;
  const std::string path = "spec.resourcesPerProcess.gpu";
  const int64_t fit = gpus / asked;
  const std::string has = "this computer has " + std::to_string(gpus);
  validator.Error(path, std::to_string(world) + " processes ask for " +
                            std::to_string(asked * world) + " GPUs in all and " + has +
                            (fit > 0 ? "; run at most " + std::to_string(fit) + " processes"
                                     : "; remove gpu to run without"));
}

// A job without a command runs the built-in trainer, which reads no code of the user's.
void ValidateSync(Validator& validator) {
  const Spec& spec = validator.job.spec;
  if (!spec.sync || !spec.trainer) return;
  validator.Error("spec.sync",
                  "must be absent with trainer: the built-in trainer runs no code of yours");
}

void ValidateRestart(Validator& validator) {
  const std::optional<RestartRequest>& request = validator.job.spec.restart_request;
  if (!request || !request->id.empty()) return;
  validator.Error("spec.restartRequest.id",
                  "is missing; write a new id for each request, as in the time of the request");
}

}  // namespace

std::vector<Problem> Validate(const TrainingJob& job, Target target, std::optional<int> gpus) {
  Validator validator(job, target);
  ValidateMetadata(validator);
  ValidateNumbers(validator, "spec", validator.job.spec);
  ValidateCommand(validator);
  ValidateServices(validator);
  ValidateEnv(validator);
  ValidateTensorFlow(validator);
  ValidateRoles(validator);
  ValidateTrainer(validator);
  ValidateResources(validator);
  ValidateTemplate(validator);
  ValidateTopology(validator);
  ValidateFailurePolicy(validator);
  ValidateElastic(validator);
  ValidateCheckpoint(validator);
  ValidateObjectStore(validator);
  ValidatePrestart(validator);
  ValidatePreflight(validator);
  ValidateTimes(validator);
  ValidateRestart(validator);
  ValidateSync(validator);
  ValidateProgress(validator);
  ValidateCluster(validator);
  if (validator.local() && gpus) ValidateGpus(validator, *gpus);
  return validator.TakeProblems();
}

namespace {

struct ClusterField {
  const char* name;
  bool (*is_set)(const Spec& spec, const Spec& standard);
};

using SpecRef = const Spec&;
constexpr ClusterField kClusterFields[] = {
    {"image", [](SpecRef spec, SpecRef) { return !spec.image.empty(); }},
    {"imagePullSecrets", [](SpecRef spec, SpecRef) { return !spec.image_pull_secrets.empty(); }},
    {"template", [](SpecRef spec, SpecRef) { return !spec.template_.IsEmpty(); }},
    {"resourcesPerProcess.cpu",
     [](SpecRef spec, SpecRef) { return spec.resources_per_process.cpu.has_value(); }},
    {"resourcesPerProcess.memory",
     [](SpecRef spec, SpecRef) { return spec.resources_per_process.memory.has_value(); }},
    {"resourcesPerMachine",
     [](SpecRef spec, SpecRef) { return !spec.resources_per_machine.empty(); }},
    {"sharedMemory", [](SpecRef spec, SpecRef) { return spec.shared_memory.has_value(); }},
    {"topology.policy",
     [](SpecRef spec, SpecRef standard) {
       return spec.topology.policy != standard.topology.policy;
     }},
    {"topology.gpuVisibility",
     [](SpecRef spec, SpecRef standard) {
       return spec.topology.gpu_visibility != standard.topology.gpu_visibility;
     }},
    {"placement",
     [](SpecRef spec, SpecRef standard) { return spec.placement != standard.placement; }},
    {"scheduling",
     [](SpecRef spec, SpecRef standard) { return spec.scheduling != standard.scheduling; }},
    {"network", [](SpecRef spec, SpecRef standard) { return spec.network != standard.network; }},
    {"failurePolicy.nodeHealth",
     [](SpecRef spec, SpecRef standard) {
       return spec.failure_policy.node_health != standard.failure_policy.node_health;
     }},
    {"checkpoint.claim", [](SpecRef spec, SpecRef) { return !spec.checkpoint.claim.empty(); }},
    {"checkpoint.secret", [](SpecRef spec, SpecRef) { return !spec.checkpoint.secret.empty(); }},
    {"health.startTimeout",
     [](SpecRef spec, SpecRef standard) {
       return spec.health.start_timeout != standard.health.start_timeout;
     }},
    {"restartRequest", [](SpecRef spec, SpecRef) { return spec.restart_request.has_value(); }},
    {"sync", [](SpecRef spec, SpecRef) { return spec.sync.has_value(); }},
    {"ttlSecondsAfterFinished",
     [](SpecRef spec, SpecRef) { return spec.ttl_seconds_after_finished.has_value(); }},
    {"cleanPodPolicy",
     [](SpecRef spec, SpecRef standard) {
       return spec.clean_pod_policy != standard.clean_pod_policy;
     }},
    {"priorityClassName", [](SpecRef spec, SpecRef) { return !spec.priority_class_name.empty(); }},
    {"schedulerName", [](SpecRef spec, SpecRef) { return !spec.scheduler_name.empty(); }},
    {"managedBy",
     [](SpecRef spec, SpecRef standard) { return spec.managed_by != standard.managed_by; }},
};

}  // namespace

std::string IgnoredLocally(const TrainingJob& job) {
  const Spec standard;
  std::string names;
  for (const ClusterField& field : kClusterFields) {
    if (!field.is_set(job.spec, standard)) continue;
    if (!names.empty()) names += ", ";
    names += field.name;
  }
  return names;
}

std::vector<std::string_view> ClusterFields() {
  std::vector<std::string_view> names;
  for (const ClusterField& field : kClusterFields) names.emplace_back(field.name);
  return names;
}

}  // namespace lockstep::core
