// The tables (base/fields.h) of a TrainingJob: every field's name in files and where it lives in
// the spec.
#ifndef LOCKSTEP_CORE_MODEL_FIELDS_H_
#define LOCKSTEP_CORE_MODEL_FIELDS_H_

#include <array>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/fields.h"
#include "core/model/machine_attempts.h"
#include "core/model/spec.h"

namespace lockstep::core {

// Metadata that an API server adds to a job.
template <>
inline constexpr auto kOthersFields<Metadata> = std::to_array<std::string_view>(
    {"resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "managedFields",
     "ownerReferences", "finalizers", "selfLink", "deletionGracePeriodSeconds", "generateName"});

template <>
struct Surrogate<MachineAttempts> {
  using Type = std::vector<AttemptRange>;
  static Type From(const MachineAttempts& attempts) { return attempts.Ranges(); }
  static Result<MachineAttempts> To(const Type& ranges) {
    return MachineAttempts::FromRanges(ranges);
  }
};

template <>
inline constexpr auto kFields<Metadata> =
    std::tuple(Field{"name", &Metadata::name}, Field{"namespace", &Metadata::name_space},
               Field{"labels", &Metadata::labels}, Field{"annotations", &Metadata::annotations},
               Field{"uid", &Metadata::uid});

template <>
inline constexpr auto kFields<EnvVar> = std::tuple(Field{"name", &EnvVar::name, AtMost{253}},
                                                   Field{"value", &EnvVar::value, AtMost{131072}},
                                                   Field{"valueFrom", &EnvVar::value_from});

template <>
inline constexpr auto kFields<LocalObjectReference> =
    std::tuple(Field{"name", &LocalObjectReference::name, AtMost{253}});

template <>
inline constexpr auto kFields<ResourcesPerProcess> = std::tuple(
    Field{"gpu", &ResourcesPerProcess::gpu, Between{0, 64}},
    Field{"cpu", &ResourcesPerProcess::cpu}, Field{"memory", &ResourcesPerProcess::memory},
    Field{"gpuResource", &ResourcesPerProcess::gpu_resource, AtMost{317}});

template <>
inline constexpr auto kFields<MappedProcess> =
    std::tuple(Field{"cpus", &MappedProcess::cpus, AtMost{1024}},
               Field{"memory", &MappedProcess::memory, AtMost{256}});

template <>
inline constexpr auto kFields<Topology> = std::tuple(
    Field{"bind", &Topology::bind}, Field{"map", &Topology::map, AtMost{kMostProcessesPerMachine}},
    Field{"memoryPolicy", &Topology::memory_policy}, Field{"policy", &Topology::policy},
    Field{"gpuVisibility", &Topology::gpu_visibility});

template <>
inline constexpr auto kFields<Placement> =
    std::tuple(Field{"onePerNode", &Placement::one_per_node},
               Field{"topologyKey", &Placement::topology_key, AtMost{317}},
               Field{"topologyLevels", &Placement::topology_levels, AtMost{8, 317}},
               Field{"topologyMode", &Placement::topology_mode});

template <>
inline constexpr auto kFields<Scheduling> = std::tuple(Field{"gang", &Scheduling::gang});

template <>
inline constexpr auto kFields<Network> = std::tuple(Field{"hostnames", &Network::hostnames});

template <>
inline constexpr auto kFields<Mpi> = std::tuple(Field{"start", &Mpi::start});

template <>
inline constexpr auto kFields<Role> =
    std::tuple(Field{"name", &Role::name, AtMost{63}},
               Field{"count", &Role::count, Between{1, kMostMachines* kMostProcessesPerMachine}},
               Field{"restart", &Role::restart});

template <>
inline constexpr auto kFields<MemoryCheckpoints> =
    std::tuple(Field{"size", &MemoryCheckpoints::size},
               Field{"replicas", &MemoryCheckpoints::replicas, Between{0, 1}});

template <>
inline constexpr auto kFields<Checkpoint> = std::tuple(
    Field{"claim", &Checkpoint::claim, AtMost{253}}, Field{"path", &Checkpoint::path, AtMost{4096}},
    Field{"resume", &Checkpoint::resume, AtMost{4096}}, Field{"memory", &Checkpoint::memory},
    Field{"persistEvery", &Checkpoint::persist_every}, Field{"url", &Checkpoint::url, AtMost{1024}},
    Field{"secret", &Checkpoint::secret, AtMost{253}},
    Field{"keep", &Checkpoint::keep, Between{1, 1000}}, Field{"keepEvery", &Checkpoint::keep_every},
    Field{"uploadBandwidth", &Checkpoint::upload_bandwidth});

template <>
inline constexpr auto kFields<Elastic> = std::tuple(
    Field{"minMachines", &Elastic::min_machines, Between{1, kMostMachines}},
    Field{"sizes", &Elastic::sizes, AtMost{64}, Between{1, kMostMachines}},
    Field{"shrinkAfter", &Elastic::shrink_after}, Field{"growAfter", &Elastic::grow_after});

template <>
inline constexpr auto kFields<Health> = std::tuple(Field{"startTimeout", &Health::start_timeout},
                                                   Field{"hangTimeout", &Health::hang_timeout},
                                                   Field{"hangAction", &Health::hang_action});

template <>
inline constexpr auto kFields<Preflight> = std::tuple(
    Field{"enabled", &Preflight::enabled}, Field{"margin", &Preflight::margin},
    Field{"minGflops", &Preflight::min_gflops}, Field{"minMemoryGBps", &Preflight::min_memory_gbps},
    Field{"minDiskGBps", &Preflight::min_disk_gbps},
    Field{"minLinkGBps", &Preflight::min_link_gbps});

template <>
inline constexpr auto kFields<Logs> =
    std::tuple(Field{"console", &Logs::console}, Field{"format", &Logs::format},
               Field{"path", &Logs::path, AtMost{4096}});

template <>
inline constexpr auto kFields<ProgressSource> =
    std::tuple(Field{"from", &ProgressSource::from},
               Field{"patterns", &ProgressSource::patterns, AtMost{8, 256}});

template <>
inline constexpr auto kFields<AttemptRange> =
    std::tuple(Field{"attempt", &AttemptRange::attempt, Always{}},
               Field{"machines", &AttemptRange::machines, Always{}});

template <>
inline constexpr auto kFields<RestartRequest> =
    std::tuple(Field{"id", &RestartRequest::id, AtMost{63}},
               Field{"reason", &RestartRequest::reason, AtMost{256}},
               Field{"requestedBy", &RestartRequest::requested_by, AtMost{256}},
               Field{"atCommit", &RestartRequest::at_commit});

template <>
inline constexpr auto kFields<SyncSpec> = std::tuple<>();

template <>
inline constexpr auto kFields<Spec> = std::tuple(
    Field{"numMachines", &Spec::num_machines, Between{1, kMostMachines}},
    Field{"processesPerMachine", &Spec::processes_per_machine,
          Between{1, kMostProcessesPerMachine}},
    Field{"image", &Spec::image, AtMost{1024}},
    Field{"command", &Spec::command, AtMost{256, 16384}},
    Field{"args", &Spec::args, AtMost{1024, 16384}},
    Field{"workingDir", &Spec::working_dir, AtMost{4096}}, Field{"env", &Spec::env, AtMost{1024}},
    Field{"envFrom", &Spec::env_from, AtMost{64}},
    Field{"imagePullSecrets", &Spec::image_pull_secrets, AtMost{16}},
    Field{"launch", &Spec::launch}, Field{"framework", &Spec::framework}, Field{"mpi", &Spec::mpi},
    Field{"prestart", &Spec::prestart},
    Field{"prestartExclude", &Spec::prestart_exclude, AtMost{64, 253}},
    Field{"trainer", &Spec::trainer}, Field{"template", &Spec::template_},
    Field{"resourcesPerProcess", &Spec::resources_per_process},
    Field{"resourcesPerMachine", &Spec::resources_per_machine, AtMost{32}},
    Field{"sharedMemory", &Spec::shared_memory}, Field{"topology", &Spec::topology},
    Field{"placement", &Spec::placement}, Field{"scheduling", &Spec::scheduling},
    Field{"network", &Spec::network}, Field{"elastic", &Spec::elastic},
    Field{"spareMachines", &Spec::spare_machines, Between{0, 64}},
    Field{"successPolicy", &Spec::success_policy},
    Field{"successRole", &Spec::success_role, AtMost{63}}, Field{"roles", &Spec::roles, AtMost{16}},
    Field{"failurePolicy", &Spec::failure_policy}, Field{"checkpoint", &Spec::checkpoint},
    Field{"gracePeriod", &Spec::grace_period}, Field{"health", &Spec::health},
    Field{"preflight", &Spec::preflight}, Field{"logs", &Spec::logs},
    Field{"progress", &Spec::progress}, Field{"suspend", &Spec::suspend},
    Field{"restartRequest", &Spec::restart_request}, Field{"sync", &Spec::sync},
    Field{"activeDeadlineSeconds", &Spec::active_deadline_seconds, Between{0}},
    Field{"ttlSecondsAfterFinished", &Spec::ttl_seconds_after_finished, Between{0}},
    Field{"cleanPodPolicy", &Spec::clean_pod_policy},
    Field{"priorityClassName", &Spec::priority_class_name, AtMost{253}},
    Field{"schedulerName", &Spec::scheduler_name, AtMost{253}},
    Field{"managedBy", &Spec::managed_by, AtMost{317}});

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_MODEL_FIELDS_H_
