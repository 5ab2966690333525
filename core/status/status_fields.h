// The tables of a status's fields, as core/model/fields.h has a job's: for who reads or writes a
// status, or a record that holds one.
#ifndef LOCKSTEP_CORE_STATUS_STATUS_FIELDS_H_
#define LOCKSTEP_CORE_STATUS_STATUS_FIELDS_H_

#include "core/model/fields.h"
#include "core/status/status.h"

namespace lockstep::core {

// The form of metav1.Condition, whose fields the API server requires.
template <>
inline constexpr auto kFields<Condition> = std::tuple(
    Field{"type", &Condition::type, Always{}}, Field{"status", &Condition::status, Always{}},
    Field{"reason", &Condition::reason, Always{}}, Field{"message", &Condition::message, Always{}},
    Field{"observedGeneration", &Condition::observed_generation},
    Field{"lastTransitionTime", &Condition::last_transition_time, Always{}});

template <>
inline constexpr auto kFields<AgentVersion> = std::tuple(
    Field{"image", &AgentVersion::image}, Field{"planVersion", &AgentVersion::plan_version},
    Field{"keyVersion", &AgentVersion::key_version});

template <>
inline constexpr auto kFields<JobVerdict> =
    std::tuple(Field{"generation", &JobVerdict::generation},
               Field{"exitCode", &JobVerdict::exit_code, Always{}},
               Field{"cause", &JobVerdict::cause, Always{}});

template <>
inline constexpr auto kFields<MachineCounts> =
    std::tuple(Field{"desired", &MachineCounts::desired, Always{}},
               Field{"ready", &MachineCounts::ready, Always{}},
               Field{"byState", &MachineCounts::by_state}, Field{"spares", &MachineCounts::spares});

template <>
inline constexpr auto kFields<MachineStatus> =
    std::tuple(Field{"index", &MachineStatus::index, Always{}}, Field{"pod", &MachineStatus::pod},
               Field{"node", &MachineStatus::node}, Field{"state", &MachineStatus::state, Always{}},
               Field{"replacements", &MachineStatus::replacements, Always{}},
               Field{"binding", &MachineStatus::binding}, Field{"usage", &MachineStatus::usage});

template <>
inline constexpr auto kFields<RestartCounts> =
    std::tuple(Field{"total", &RestartCounts::total, Always{}},
               Field{"application", &RestartCounts::application, Always{}},
               Field{"infrastructure", &RestartCounts::infrastructure, Always{}},
               Field{"stopped", &RestartCounts::stopped, Always{}});

template <>
inline constexpr auto kFields<LastFailure> =
    std::tuple(Field{"time", &LastFailure::time}, Field{"epoch", &LastFailure::epoch},
               Field{"generation", &LastFailure::generation}, Field{"node", &LastFailure::node},
               Field{"", &LastFailure::failure, Inline{}});

template <>
inline constexpr auto kFields<RestartRecord> = std::tuple(
    Field{"generation", &RestartRecord::generation},
    Field{"cause", &RestartRecord::cause, Always{}}, Field{"machine", &RestartRecord::machine},
    Field{"detected", &RestartRecord::detected}, Field{"respawned", &RestartRecord::respawned},
    Field{"firstStep", &RestartRecord::first_step}, Field{"lostSteps", &RestartRecord::lost_steps},
    Field{"reason", &RestartRecord::reason}, Field{"code", &RestartRecord::code});

template <>
inline constexpr auto kFields<PrestartStatus> = std::tuple(
    Field{"ready", &PrestartStatus::ready, Always{}}, Field{"reason", &PrestartStatus::reason},
    Field{"warm", &PrestartStatus::warm, Always{}}, Field{"cold", &PrestartStatus::cold, Always{}},
    Field{"savedMilliseconds", &PrestartStatus::saved_milliseconds, Always{}},
    Field{"counted", &PrestartStatus::counted});

template <>
inline constexpr auto kFields<ProgressMetric> =
    std::tuple(Field{"name", &ProgressMetric::name, Always{}},
               Field{"value", &ProgressMetric::value, Always{}});

template <>
inline constexpr auto kFields<JobProgress> = std::tuple(
    Field{"step", &JobProgress::step, Always{}}, Field{"totalSteps", &JobProgress::total_steps},
    Field{"percent", &JobProgress::percent}, Field{"etaSeconds", &JobProgress::eta_seconds},
    Field{"metrics", &JobProgress::metrics}, Field{"source", &JobProgress::source},
    Field{"lastUpdated", &JobProgress::last_updated});

template <>
inline constexpr auto kFields<QueueStatus> = std::tuple(
    Field{"workload", &QueueStatus::workload}, Field{"clusterQueue", &QueueStatus::cluster_queue},
    Field{"flavors", &QueueStatus::flavors});

template <>
inline constexpr auto kFields<PodGroupStatus> = std::tuple(
    Field{"name", &PodGroupStatus::name, Always{}}, Field{"gang", &PodGroupStatus::gang, Always{}});

template <>
inline constexpr auto kFields<ElasticStatus> = std::tuple(
    Field{"members", &ElasticStatus::members, Always{}},
    Field{"witnesses", &ElasticStatus::witnesses}, Field{"asked", &ElasticStatus::asked},
    Field{"silent", &ElasticStatus::silent}, Field{"withoutQuota", &ElasticStatus::without_quota},
    Field{"since", &ElasticStatus::since}, Field{"reason", &ElasticStatus::reason});

template <>
inline constexpr auto kFields<RestartStatus> = std::tuple(
    Field{"id", &RestartStatus::id, Always{}}, Field{"reason", &RestartStatus::reason},
    Field{"requestedBy", &RestartStatus::requested_by},
    Field{"atCommit", &RestartStatus::at_commit}, Field{"attempt", &RestartStatus::attempt},
    Field{"asked", &RestartStatus::asked}, Field{"done", &RestartStatus::done});

template <>
inline constexpr auto kFields<CodeStatus> =
    std::tuple(Field{"digest", &CodeStatus::digest, Always{}},
               Field{"files", &CodeStatus::files, Always{}}, Field{"by", &CodeStatus::by},
               Field{"since", &CodeStatus::since}, Field{"generation", &CodeStatus::generation});

template <>
inline constexpr auto kFields<SuspectNode> =
    std::tuple(Field{"node", &SuspectNode::node, Always{}},
               Field{"evidence", &SuspectNode::evidence, Always{}},
               Field{"count", &SuspectNode::count, Always{}}, Field{"last", &SuspectNode::last},
               Field{"message", &SuspectNode::message});

template <>
inline constexpr auto kFields<Timings> =
    std::tuple(Field{"created", &Timings::created}, Field{"scheduled", &Timings::scheduled},
               Field{"started", &Timings::started}, Field{"firstStep", &Timings::first_step},
               Field{"finished", &Timings::finished});

template <>
inline constexpr auto kFields<LedgerSums> = std::tuple(
    Field{"machineMilliseconds", &LedgerSums::activities}, Field{"lostTo", &LedgerSums::lost_to});

template <>
inline constexpr auto kFields<Ledger::Open> = std::tuple(
    Field{"since", &Ledger::Open::since, Always{}}, Field{"cause", &Ledger::Open::cause},
    Field{"generation", &Ledger::Open::generation}, Field{"lastStep", &Ledger::Open::last_step},
    Field{"nodesMilliseconds", &Ledger::Open::nodes_milliseconds},
    Field{"", &Ledger::Open::sums, Inline{}});

template <>
inline constexpr auto kFields<Ledger> =
    std::tuple(Field{"since", &Ledger::since}, Field{"through", &Ledger::through},
               Field{"elapsedMilliseconds", &Ledger::elapsed_milliseconds, Always{}},
               Field{"", &Ledger::sums, Inline{}}, Field{"goodput", &Ledger::goodput},
               Field{"furthestStep", &Ledger::furthest_step}, Field{"settled", &Ledger::settled},
               Field{"open", &Ledger::open});

template <>
inline constexpr auto kFields<JobStatus> = std::tuple(
    Field{"state", &JobStatus::state, Always{}}, Field{"reason", &JobStatus::reason},
    Field{"ready", &JobStatus::ready}, Field{"processes", &JobStatus::processes},
    Field{"progressText", &JobStatus::progress_text},
    Field{"observedGeneration", &JobStatus::observed_generation},
    Field{"conditions", &JobStatus::conditions}, Field{"epoch", &JobStatus::epoch, Always{}},
    Field{"createdEpoch", &JobStatus::created_epoch}, Field{"attempts", &JobStatus::attempts},
    Field{"agent", &JobStatus::agent}, Field{"verdict", &JobStatus::verdict},
    Field{"counters", &JobStatus::counters},
    Field{"machineLostAfter", &JobStatus::machine_lost_after},
    Field{"gangGeneration", &JobStatus::gang_generation, Formerly{"generation"}},
    Field{"replicas", &JobStatus::replicas, Always{}}, Field{"selector", &JobStatus::selector},
    Field{"machines", &JobStatus::machines, Always{}},
    Field{"machineStatuses", &JobStatus::machine_statuses},
    Field{"restarts", &JobStatus::restarts, Always{}},
    Field{"lastFailure", &JobStatus::last_failure}, Field{"history", &JobStatus::history},
    Field{"ledger", &JobStatus::ledger}, Field{"prestart", &JobStatus::prestart},
    Field{"preflight", &JobStatus::preflight}, Field{"progress", &JobStatus::progress},
    Field{"queue", &JobStatus::queue}, Field{"elastic", &JobStatus::elastic},
    Field{"podGroup", &JobStatus::pod_group}, Field{"restart", &JobStatus::restart},
    Field{"code", &JobStatus::code}, Field{"suspectNodes", &JobStatus::suspect_nodes},
    Field{"timings", &JobStatus::timings});

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_STATUS_STATUS_FIELDS_H_
