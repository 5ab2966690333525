// The list of everything that /metrics may show: one description a family. docs/metrics.md holds
// the same list; a test compares the two, and both with what is exposed.
#ifndef LOCKSTEP_WORKER_AGENT_METRICS_METRICS_FAMILIES_H_
#define LOCKSTEP_WORKER_AGENT_METRICS_METRICS_FAMILIES_H_

#include <prometheus/metric_type.h>

#include <array>

namespace lockstep::agent {

struct MetricDescription {
  const char* name;
  prometheus::MetricType type;
  const char* labels;  // beside trainingjob and machine, separated by blanks
  const char* help;
};

namespace metric {

using Type = prometheus::MetricType;

// ---- this machine's agent ----
inline constexpr MetricDescription kBuildInfo{"lockstep_build_info", Type::Gauge, "version",
                                              "1; the label names the agent's version."};
inline constexpr MetricDescription kGenerationAttempt{
    "lockstep_generation_attempt", Type::Gauge, "",
    "Attempt of the machine 0 that announced this machine's latest generation; 0 before any."};
inline constexpr MetricDescription kGeneration{
    "lockstep_generation", Type::Gauge, "",
    "Number of this machine's latest generation under its attempt; 0 before any."};
inline constexpr MetricDescription kMachinePhase{
    "lockstep_machine_phase", Type::Gauge, "phase",
    "1 for the phase this machine is in, 0 for every other one."};
inline constexpr MetricDescription kProcessRestarts{
    "lockstep_process_restarts_total", Type::Counter, "",
    "Processes started again on this machine by restarts of the gang."};
inline constexpr MetricDescription kLogLines{"lockstep_log_lines_total", Type::Counter, "",
                                             "Lines read from the ranks' stdout and stderr."};
inline constexpr MetricDescription kLogBytes{"lockstep_log_bytes_total", Type::Counter, "",
                                             "Bytes read from the ranks' stdout and stderr."};
inline constexpr MetricDescription kLogDropped{
    "lockstep_log_dropped_bytes_total", Type::Counter, "sink",
    "Bytes of the ranks' output left out because the console's reader was slow or the files' disk "
    "full or over its cap; no rank waited for them."};
inline constexpr MetricDescription kRefusedConnections{
    "lockstep_refused_connections_total", Type::Counter, "",
    "Connections to the gang's port that were refused: wrong key, wrong protocol, too slow or too "
    "many."};
inline constexpr MetricDescription kAgentCpu{"lockstep_agent_cpu_seconds_total", Type::Counter, "",
                                             "CPU time of the agent itself."};
inline constexpr MetricDescription kAgentMemory{"lockstep_agent_resident_memory_bytes", Type::Gauge,
                                                "", "Resident memory of the agent itself."};

// ---- this machine's container ----
inline constexpr MetricDescription kMemory{
    "lockstep_memory_bytes", Type::Gauge, "",
    "Memory charged to the container's cgroup, page cache and /dev/shm included."};
inline constexpr MetricDescription kMemoryLimit{
    "lockstep_memory_limit_bytes", Type::Gauge, "",
    "The container's memory limit; absent without one."};
inline constexpr MetricDescription kMemoryEvents{
    "lockstep_memory_events_total", Type::Counter, "event",
    "Times the memory limit could not be kept (oom; cgroup v2 only) and processes were killed for "
    "it (oom_kill)."};
inline constexpr MetricDescription kThrottled{
    "lockstep_cpu_throttled_seconds_total", Type::Counter, "",
    "Time in which the container's threads stood still for its CPU limit."};
inline constexpr MetricDescription kSharedMemoryUsed{"lockstep_shared_memory_used_bytes",
                                                     Type::Gauge, "", "Used space of /dev/shm."};
inline constexpr MetricDescription kSharedMemorySize{"lockstep_shared_memory_size_bytes",
                                                     Type::Gauge, "", "Size of /dev/shm."};

// ---- its ranks ----
inline constexpr MetricDescription kRankUp{"lockstep_rank_up", Type::Gauge, "rank",
                                           "1 while the rank's process runs, else 0."};
inline constexpr MetricDescription kRankCpu{
    "lockstep_rank_cpu_seconds_total", Type::Counter, "rank",
    "CPU time of the rank's process, and of those before it as far as scrapes saw them."};
inline constexpr MetricDescription kRankMemory{"lockstep_rank_resident_memory_bytes", Type::Gauge,
                                               "rank", "Resident memory of the rank's process."};
inline constexpr MetricDescription kRankBinding{
    "lockstep_rank_binding_info", Type::Gauge, "rank mode",
    "1; the label names the binding in effect: None, Partial or Node."};
inline constexpr MetricDescription kRankStep{"lockstep_rank_step", Type::Gauge, "rank",
                                             "The last step that the rank reported."};
inline constexpr MetricDescription kRankTotalSteps{
    "lockstep_rank_total_steps", Type::Gauge, "rank",
    "The steps of the whole job, where the rank reported them."};
inline constexpr MetricDescription kRankLoss{"lockstep_rank_loss", Type::Gauge, "rank",
                                             "The last loss that the rank reported."};
inline constexpr MetricDescription kRankTokens{"lockstep_rank_tokens_per_second", Type::Gauge,
                                               "rank",
                                               "Tokens a second that the rank processed lately."};
inline constexpr MetricDescription kRankProgressAge{
    "lockstep_rank_progress_age_seconds", Type::Gauge, "rank",
    "Time since the rank last reported progress in this generation."};
inline constexpr MetricDescription kRankStepSeconds{
    "lockstep_rank_step_seconds", Type::Summary, "rank",
    "Time from one reported step of the rank to its next, per step."};
inline constexpr MetricDescription kStepSeconds{
    "lockstep_step_seconds", Type::Histogram, "",
    "Time from one reported step of a rank to its next, per step, over this machine's ranks."};
inline constexpr MetricDescription kReported{
    "lockstep_reported", Type::Gauge, "rank name",
    "What the rank reported under this name; the first 64 names of a machine are kept."};
inline constexpr MetricDescription kReportedLeftOut{
    "lockstep_reported_left_out", Type::Gauge, "",
    "Reported names that are not shown: beyond the first 64, or longer than 128 bytes."};

// ---- the whole job; machine 0 only ----
inline constexpr MetricDescription kGangPhase{
    "lockstep_gang_phase", Type::Gauge, "phase",
    "1 for the phase the gang is in, 0 for every other one."};
inline constexpr MetricDescription kGenerations{
    "lockstep_generations_total", Type::Counter, "",
    "Generations started in the whole life of the job, under earlier machines 0 too."};
inline constexpr MetricDescription kRestarts{
    "lockstep_restarts_total", Type::Counter, "cause",
    "Generations started again since this machine 0 began, by what ended the one before."};
inline constexpr MetricDescription kFailures{
    "lockstep_failures_total", Type::Counter, "kind",
    "What went wrong in the whole life of the job: process, out_of_memory, replacement, lease."};
inline constexpr MetricDescription kStops{
    "lockstep_requested_stops_total", Type::Counter, "",
    "Generations stopped on request in the whole life of the job: suspend, drain, scale and so "
    "on."};
inline constexpr MetricDescription kBudgetUsed{
    "lockstep_restart_budget_used", Type::Gauge, "budget",
    "Failures charged to the budget since it was last whole: application, infrastructure."};
inline constexpr MetricDescription kBudgetLimit{
    "lockstep_restart_budget_limit", Type::Gauge, "budget",
    "The budget: maxRestarts (application), maxMachineReplacements (infrastructure)."};
inline constexpr MetricDescription kRecovery{
    "lockstep_recovery_seconds", Type::Histogram, "phase",
    "Parts of each recovery from a failure: detect (failure to stop sent), stop (to all processes "
    "dead), spawn (announcement of the next generation to its last process started), first_step "
    "(to the first step reported)."};
inline constexpr MetricDescription kLostSteps{
    "lockstep_lost_steps_total", Type::Counter, "",
    "Steps that were done once and had to be done again after a restart."};
inline constexpr MetricDescription kGoodput{
    "lockstep_goodput_seconds_total", Type::Counter, "state",
    "The job's time since this machine 0 began: productive, lost (steps done again), restart, "
    "waiting or checkpoint; the five add up to all of it."};
inline constexpr MetricDescription kCommits{
    "lockstep_commits_total", Type::Counter, "result",
    "Requests to commit a checkpoint, granted or refused, since this machine 0 began."};
inline constexpr MetricDescription kCheckpointAge{
    "lockstep_checkpoint_age_seconds", Type::Gauge, "",
    "Time since the last commit was granted; absent before the first one since this machine 0 "
    "began."};
inline constexpr MetricDescription kHeartbeat{
    "lockstep_heartbeat_round_trip_seconds", Type::Histogram, "",
    "Time from a heartbeat to a member's answer, over all members."};

}  // namespace metric

// In the order in which they are shown.
inline constexpr auto kMetricFamilies = std::to_array<const MetricDescription*>({
    &metric::kBuildInfo,
    &metric::kGenerationAttempt,
    &metric::kGeneration,
    &metric::kMachinePhase,
    &metric::kProcessRestarts,
    &metric::kLogLines,
    &metric::kLogBytes,
    &metric::kLogDropped,
    &metric::kRefusedConnections,
    &metric::kAgentCpu,
    &metric::kAgentMemory,
    &metric::kMemory,
    &metric::kMemoryLimit,
    &metric::kMemoryEvents,
    &metric::kThrottled,
    &metric::kSharedMemoryUsed,
    &metric::kSharedMemorySize,
    &metric::kRankUp,
    &metric::kRankCpu,
    &metric::kRankMemory,
    &metric::kRankBinding,
    &metric::kRankStep,
    &metric::kRankTotalSteps,
    &metric::kRankLoss,
    &metric::kRankTokens,
    &metric::kRankProgressAge,
    &metric::kRankStepSeconds,
    &metric::kStepSeconds,
    &metric::kReported,
    &metric::kReportedLeftOut,
    &metric::kGangPhase,
    &metric::kGenerations,
    &metric::kRestarts,
    &metric::kFailures,
    &metric::kStops,
    &metric::kBudgetUsed,
    &metric::kBudgetLimit,
    &metric::kRecovery,
    &metric::kLostSteps,
    &metric::kGoodput,
    &metric::kCommits,
    &metric::kCheckpointAge,
    &metric::kHeartbeat,
});

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_METRICS_METRICS_FAMILIES_H_
