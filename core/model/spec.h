// TrainingJob: the user's job, typed. docs/reference/trainingjob.md describes every field.
//
// A default-constructed Spec holds the defaults. One table (core/model/fields.h) has the field
// names and their order in files; the reader, the writer and the spelling help share it.
//
//   ParseResult parsed = ParseYaml(text, "job.yaml");
//   if (!parsed.job) return Show(parsed.problems);
//   std::vector<Problem> problems = Validate(*parsed.job, Target::kLocal);
#ifndef LOCKSTEP_CORE_MODEL_SPEC_H_
#define LOCKSTEP_CORE_MODEL_SPEC_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/text/enum_names.h"
#include "base/text/quantity.h"
#include "base/time.h"
#include "core/failure/failure.h"
#include "core/model/framework.h"
#include "core/model/trainer.h"
#include "core/preflight/preflight.h"
#include "core/terms/members.h"
#include "core/text/node.h"

namespace lockstep::core {

inline constexpr const char* kApiVersion = "lockstep.dev/v1alpha1";
inline constexpr const char* kKind = "TrainingJob";
inline constexpr int kMostMachines = Members::kMost;
inline constexpr int kMostProcessesPerMachine = 64;

enum class Launch : uint8_t { kPerProcess, kPerMachine };
// How the ranks of an MPI program start.
enum class MpiStart : uint8_t {
  kLauncher,  // the command is mpirun's, on machine 0 alone, which reaches the others by the agents
  kPmi,       // the agents start them, and answer PMI-1
  kPmix,      // likewise, and a helper of theirs answers PMIx
};
enum class Bind : uint8_t {
  kNone,
  kNode,         // the cores of its GPUs' NUMA nodes, or its share of the cores
  kSocket,       // those of their packages
  kCoreComplex,  // those under one last-level cache
  kExclusive,    // cores that no other process of the machine has
  kInterleave,   // all cores, memory page by page from all nodes
  kMap,          // what Topology::map says
};
enum class MemoryPolicy : uint8_t { kNone, kPreferred, kStrict, kInterleave };
enum class TopologyPolicy : uint8_t { kNone, kPreferred, kRequired };
enum class GpuVisibility : uint8_t { kShared, kIsolated };
enum class OnePerNode : uint8_t { kAuto, kRequired, kPreferred, kNone };
enum class TopologyMode : uint8_t { kPreferred, kRequired };
// The kind of PodGroup for the gang's pods, so that all of them get a node or none.
enum class GangScheduler : uint8_t { kNone, kKubernetes, kCoscheduling, kVolcano };
enum class Console : uint8_t { kAll, kRankZero, kFailedOnly };
enum class LogFormat : uint8_t { kPrefix, kRaw, kJson };
// Where a rank's step, total and loss come from.
enum class ProgressFrom : uint8_t {
  kAuto,     // what it reports; until it does, what it prints
  kReports,  // lockstep.report() alone
  kOutput,   // what it prints alone, which hangTimeout then counts
  kNever,
};
// Whether interpreters with the ranks' imports are parked for the next generation.
enum class Prestart : uint8_t { kNever, kAuto, kAlways };
enum class CleanPodPolicy : uint8_t { kNone, kRunning, kAll };
// The processes whose exit 0 ends the job.
enum class SuccessPolicy : uint8_t {
  kAll,       // every rank's
  kMachine0,  // those of machine 0: the other ranks are stopped, and count as done
  kRole,      // those of the role that successRole names, likewise
};
// What is restarted if a rank of a role dies.
enum class RoleRestart : uint8_t {
  kGang,   // a new generation
  kAlone,  // that rank is started again; the others run on
};

struct Metadata {
  std::string name;
  std::string name_space;  // `namespace`
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> annotations;
  std::string uid;  // set by the API server; empty in a file

  friend bool operator==(const Metadata&, const Metadata&) = default;
};

struct EnvVar {
  std::string name;
  std::string value;
  Node value_from;  // null: there is none

  friend bool operator==(const EnvVar&, const EnvVar&) = default;
};

struct LocalObjectReference {
  std::string name;

  friend bool operator==(const LocalObjectReference&, const LocalObjectReference&) = default;
};

struct ResourcesPerProcess {
  std::optional<int32_t> gpu;
  std::optional<Quantity> cpu;
  std::optional<Quantity> memory;
  std::string gpu_resource = "nvidia.com/gpu";

  friend bool operator==(const ResourcesPerProcess&, const ResourcesPerProcess&) = default;
};

// The CPUs and nodes of one process, given by the user: lists as in 0-7,16-23.
struct MappedProcess {
  std::string cpus;
  std::string memory;  // NUMA nodes; empty: the nodes of the CPUs

  friend bool operator==(const MappedProcess&, const MappedProcess&) = default;
};

struct Topology {
  Bind bind = Bind::kNode;
  std::vector<MappedProcess> map;  // by local rank; empty unless bind is kMap
  MemoryPolicy memory_policy = MemoryPolicy::kPreferred;
  TopologyPolicy policy = TopologyPolicy::kPreferred;
  GpuVisibility gpu_visibility = GpuVisibility::kShared;

  friend bool operator==(const Topology&, const Topology&) = default;
};

struct Placement {
  OnePerNode one_per_node = OnePerNode::kAuto;
  std::string topology_key;
  std::vector<std::string> topology_levels;  // keys of wider places, from near to far
  TopologyMode topology_mode = TopologyMode::kPreferred;

  friend bool operator==(const Placement&, const Placement&) = default;
};

// Checkpoints in the machines' memory; off without a size.
struct MemoryCheckpoints {
  std::optional<Quantity> size;  // size of a machine's store, with copies for others
  int32_t replicas = 1;          // copies on other machines

  friend bool operator==(const MemoryCheckpoints&, const MemoryCheckpoints&) = default;
};

struct Checkpoint {
  std::string claim;            // a PersistentVolumeClaim
  std::string path;             // a folder: on that volume, or of this machine with `lockstep run`
  std::string resume = "Auto";  // Auto | Never | a path
  MemoryCheckpoints memory;
  // interval of writes from memory to `path` or `url`; 0: only at the job's end
  Duration persist_every = minutes(10);
  std::string url;     // s3://BUCKET/PREFIX, in place of `path`
  std::string secret;  // a Secret with the credentials of `url`
  int32_t keep = 3;    // newest checkpoints that stay in `url`
  Duration keep_every =
      Duration::zero();  // of older ones, one in each such interval stays; 0: none
  std::optional<Quantity> upload_bandwidth;  // bytes/s of a machine's uploads; nullopt: no limit

  friend bool operator==(const Checkpoint&, const Checkpoint&) = default;
};

// Whether machines are measured before ranks run, and the limits.
struct Preflight {
  bool enabled = false;
  // slow below the gang's median by this share; the others are absolute limits
  double margin = 0.3;
  double min_gflops = 0;
  double min_memory_gbps = 0;
  double min_disk_gbps = 0;
  double min_link_gbps = 0;

  PreflightLimits limits() const;

  friend bool operator==(const Preflight&, const Preflight&) = default;
};

struct Network {
  bool hostnames = true;  // <job>-<machine>.<job> leads to a machine

  friend bool operator==(const Network&, const Network&) = default;
};

struct Scheduling {
  GangScheduler gang = GangScheduler::kNone;

  friend bool operator==(const Scheduling&, const Scheduling&) = default;
};

struct Mpi {
  MpiStart start = MpiStart::kLauncher;

  friend bool operator==(const Mpi&, const Mpi&) = default;
};

// Ranks that do the same work: `count` ranks, after those of the previous roles.
struct Role {
  std::string name;
  int32_t count = 1;
  RoleRestart restart = RoleRestart::kGang;

  friend bool operator==(const Role&, const Role&) = default;
};

// The numbers of machines that are enough while others find no node.
struct Elastic {
  int32_t min_machines = 1;
  std::vector<int32_t> sizes;  // ascending; empty: any. numMachines always is one
  Duration shrink_after = minutes(2);
  Duration grow_after = minutes(15);

  friend bool operator==(const Elastic&, const Elastic&) = default;
};

// What is done about a gang that makes no progress while none of its ranks works.
enum class HangAction : uint8_t { kReport, kRestart };

struct Health {
  Duration start_timeout = minutes(10);
  Duration hang_timeout = Duration::zero();  // 0: off
  HangAction hang_action = HangAction::kReport;

  friend bool operator==(const Health&, const Health&) = default;
};

struct ProgressSource {
  ProgressFrom from = ProgressFrom::kAuto;
  std::vector<std::string> patterns;  // RE2 with the groups step, total, epoch, epochs and loss

  friend bool operator==(const ProgressSource&, const ProgressSource&) = default;
};

struct Logs {
  Console console = Console::kAll;
  LogFormat format = LogFormat::kPrefix;
  std::string path;  // folder for one file for each rank and generation; empty: none

  friend bool operator==(const Logs&, const Logs&) = default;
};

// A user's request for a new generation. A new id is a new request.
struct RestartRequest {
  std::string id;
  std::string reason;
  std::string requested_by;  // as given by the client, unverified
  bool at_commit = false;    // true: after the next commit of the running generation; false: now

  friend bool operator==(const RestartRequest&, const RestartRequest&) = default;
};

// Lets users run code from their own computers in the job's pods (kubectl lockstep sync).
struct SyncSpec {
  friend bool operator==(const SyncSpec&, const SyncSpec&) = default;
};

struct Spec {
  int32_t num_machines = 1;
  int32_t processes_per_machine = 1;
  std::string image;
  std::vector<std::string> command;  // empty: the built-in trainer
  std::vector<std::string> args;
  std::string working_dir;
  std::vector<EnvVar> env;
  std::vector<Node> env_from;
  std::vector<LocalObjectReference> image_pull_secrets;
  Launch launch = Launch::kPerProcess;
  Framework framework = Framework::kTorch;
  Mpi mpi;  // only with Framework::kMpi
  Prestart prestart = Prestart::kAuto;
  // top-level packages that parked interpreters do not import
  std::vector<std::string> prestart_exclude;
  std::optional<Trainer> trainer;
  Node template_;  // a PodTemplateSpec, handed through; null: there is none
  ResourcesPerProcess resources_per_process;
  std::map<std::string, Quantity> resources_per_machine;
  std::optional<Quantity> shared_memory;
  Topology topology;
  Placement placement;
  Scheduling scheduling;
  Network network;
  std::optional<Elastic> elastic;
  int32_t spare_machines = 0;  // pods that hold a node, its GPUs and the image
  SuccessPolicy success_policy = SuccessPolicy::kAll;
  std::string success_role;  // only with SuccessPolicy::kRole
  std::vector<Role> roles;   // empty: all ranks do the same work
  FailurePolicy failure_policy;
  Checkpoint checkpoint;
  Duration grace_period = seconds(120);
  Health health;
  Preflight preflight;
  Logs logs;
  ProgressSource progress;
  bool suspend = false;
  std::optional<RestartRequest> restart_request;
  std::optional<SyncSpec> sync;
  int64_t active_deadline_seconds = 0;  // 0: none
  std::optional<int32_t> ttl_seconds_after_finished;
  CleanPodPolicy clean_pod_policy = CleanPodPolicy::kRunning;
  std::string priority_class_name;
  std::string scheduler_name;
  std::string managed_by = "lockstep.dev/operator";

  friend bool operator==(const Spec&, const Spec&) = default;
};

struct TrainingJob {
  Metadata metadata;
  Spec spec;
  SourceMap source;  // position of each path in its file; empty for a job made in code

  // `source` is not compared.
  friend bool operator==(const TrainingJob& a, const TrainingJob& b) {
    return a.metadata == b.metadata && a.spec == b.spec;
  }
};

// numMachines x processesPerMachine; Validate bounds it.
int64_t WorldSize(const Spec& spec);
// Whether the trainer's batch, if any, divides evenly among this many machines.
bool DealsOutBatch(const Spec& spec, int32_t machines);
// The largest number of machines up to `machines` that is enough for a gang; 0: there is none.
int32_t LargestSize(const Spec& spec, int32_t machines);
// How many processes an agent starts: processesPerMachine, or 1 under PerMachine.
int ProcessesStarted(const Spec& spec);

// clang-format off
template <> inline constexpr auto kEnumNames<Launch> = std::to_array<EnumName<Launch>>(
    {{Launch::kPerProcess, "PerProcess"}, {Launch::kPerMachine, "PerMachine"}});
template <> inline constexpr auto kEnumNames<MpiStart> = std::to_array<EnumName<MpiStart>>(
    {{MpiStart::kLauncher, "Launcher"}, {MpiStart::kPmi, "Pmi"}, {MpiStart::kPmix, "Pmix"}});
template <> inline constexpr auto kEnumNames<Bind> = std::to_array<EnumName<Bind>>(
    {{Bind::kNone, "None"}, {Bind::kNode, "Node"}, {Bind::kSocket, "Socket"},
     {Bind::kCoreComplex, "CoreComplex"}, {Bind::kExclusive, "Exclusive"},
     {Bind::kInterleave, "Interleave"}, {Bind::kMap, "Map"}});
template <> inline constexpr auto kEnumNames<MemoryPolicy> = std::to_array<EnumName<MemoryPolicy>>(
    {{MemoryPolicy::kNone, "None"}, {MemoryPolicy::kPreferred, "Preferred"},
     {MemoryPolicy::kStrict, "Strict"}, {MemoryPolicy::kInterleave, "Interleave"}});
template <> inline constexpr auto kEnumNames<TopologyPolicy> =
    std::to_array<EnumName<TopologyPolicy>>(
    {{TopologyPolicy::kNone, "None"}, {TopologyPolicy::kPreferred, "Preferred"},
     {TopologyPolicy::kRequired, "Required"}});
template <> inline constexpr auto kEnumNames<GpuVisibility> =
    std::to_array<EnumName<GpuVisibility>>(
    {{GpuVisibility::kShared, "Shared"}, {GpuVisibility::kIsolated, "Isolated"}});
template <> inline constexpr auto kEnumNames<OnePerNode> = std::to_array<EnumName<OnePerNode>>(
    {{OnePerNode::kAuto, "Auto"}, {OnePerNode::kRequired, "Required"},
     {OnePerNode::kPreferred, "Preferred"}, {OnePerNode::kNone, "None"}});
template <> inline constexpr auto kEnumNames<TopologyMode> = std::to_array<EnumName<TopologyMode>>(
    {{TopologyMode::kPreferred, "Preferred"}, {TopologyMode::kRequired, "Required"}});
template <> inline constexpr auto kEnumNames<GangScheduler> =
    std::to_array<EnumName<GangScheduler>>(
    {{GangScheduler::kNone, "None"},
     {GangScheduler::kKubernetes, "Kubernetes"},
     {GangScheduler::kCoscheduling, "Coscheduling"},
     {GangScheduler::kVolcano, "Volcano"}});
template <> inline constexpr auto kEnumNames<HangAction> = std::to_array<EnumName<HangAction>>(
    {{HangAction::kReport, "Report"}, {HangAction::kRestart, "Restart"}});
template <> inline constexpr auto kEnumNames<Console> = std::to_array<EnumName<Console>>(
    {{Console::kAll, "All"}, {Console::kRankZero, "RankZero"},
     {Console::kFailedOnly, "FailedOnly"}});
template <> inline constexpr auto kEnumNames<LogFormat> = std::to_array<EnumName<LogFormat>>(
    {{LogFormat::kPrefix, "Prefix"}, {LogFormat::kRaw, "Raw"}, {LogFormat::kJson, "Json"}});
template <> inline constexpr auto kEnumNames<ProgressFrom> = std::to_array<EnumName<ProgressFrom>>(
    {{ProgressFrom::kAuto, "Auto"}, {ProgressFrom::kReports, "Reports"},
     {ProgressFrom::kOutput, "Output"}, {ProgressFrom::kNever, "Never"}});
template <> inline constexpr auto kEnumNames<Prestart> = std::to_array<EnumName<Prestart>>(
    {{Prestart::kNever, "Never"}, {Prestart::kAuto, "Auto"}, {Prestart::kAlways, "Always"}});
template <> inline constexpr auto kEnumNames<SuccessPolicy> =
    std::to_array<EnumName<SuccessPolicy>>(
    {{SuccessPolicy::kAll, "All"}, {SuccessPolicy::kMachine0, "Machine0"},
     {SuccessPolicy::kRole, "Role"}});
template <> inline constexpr auto kEnumNames<RoleRestart> = std::to_array<EnumName<RoleRestart>>(
    {{RoleRestart::kGang, "Gang"}, {RoleRestart::kAlone, "Alone"}});
template <> inline constexpr auto kEnumNames<CleanPodPolicy> =
    std::to_array<EnumName<CleanPodPolicy>>(
    {{CleanPodPolicy::kNone, "None"}, {CleanPodPolicy::kRunning, "Running"},
     {CleanPodPolicy::kAll, "All"}});
// clang-format on

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_MODEL_SPEC_H_
