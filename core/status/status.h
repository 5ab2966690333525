// JobStatus: a TrainingJob's `status`, typed: what the operator writes and the command line shows.
// Its fields: docs/reference/trainingjob.md. Plain values; equal statuses are equal documents, so
// "write it only if it changed" is a comparison of two trimmed ones.
//
//   Result<JobStatus> status = ReadJobStatus(document.Find("status"));
//   SetCondition(status->conditions, {.type = "Running", .status = Condition::Value::kTrue}, now);
//   Trim(*status); Send(ToJson(*status));
#ifndef LOCKSTEP_CORE_STATUS_STATUS_H_
#define LOCKSTEP_CORE_STATUS_STATUS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/text/enum_names.h"
#include "base/time.h"
#include "base/wall_time.h"
#include "core/failure/counters.h"
#include "core/failure/failure.h"
#include "core/model/machine_attempts.h"
#include "core/model/spec.h"
#include "core/preflight/preflight.h"
#include "core/status/ledger.h"
#include "core/terms/generation.h"
#include "core/terms/members.h"
#include "core/terms/usage.h"
#include "core/text/node.h"

namespace lockstep::core {

enum class JobState : uint8_t {
  kPending,     // not all machines are scheduled
  kQueued,      // it waits for its share of the cluster; no machine of it is there
  kStarting,    // they are; the first generation has not begun
  kRunning,     // every rank of a generation runs
  kRestarting,  // a generation ended and another will follow
  kStopping,    // on its way to Suspended or a verdict
  kSuspended,
  kSucceeded,
  kFailed,
};

// One machine's, as pod and gang tell it. Worst first: machineStatuses is in this order.
enum class MachineState : uint8_t {
  kLost,      // silent for L, or its agent is gone
  kFailed,    // its pod failed, or cannot start
  kAbsent,    // it has no pod
  kPending,   // its pod is not scheduled
  kStarting,  // scheduled; its agent has not joined the gang, or ranks are being exec'ed
  kDraining,  // its agent got SIGTERM
  kStopping,  // signals sent
  kStopped,   // no process is alive; waits for the next generation
  kIdle,      // in the gang; no generation yet
  kRunning,
  kFinished,  // its ranks exited 0; waits for the others
  kSucceeded,
};

// metav1.Condition. Reason is CamelCase and never empty; transitions are in whole seconds.
struct Condition {
  enum class Value : uint8_t { kTrue, kFalse, kUnknown };

  std::string type{};
  Value status = Value::kUnknown;
  std::string reason{};
  std::string message{};
  int64_t observed_generation = 0;
  WallTime last_transition_time{};

  friend bool operator==(const Condition&, const Condition&) = default;
};

// Fixed at the job's first creation.
struct AgentVersion {
  std::string image{};
  int32_t plan_version = 0;
  int32_t key_version = 0;

  friend bool operator==(const AgentVersion&, const AgentVersion&) = default;
};

struct JobVerdict {
  Generation generation{};  // none when no generation decided it: a deadline, an invalid spec
  int32_t exit_code = 0;
  Cause cause = Cause::kNone;

  friend bool operator==(const JobVerdict&, const JobVerdict&) = default;
};

struct MachineCounts {
  int32_t desired = 0;
  int32_t ready = 0;
  std::map<MachineState, int32_t> by_state{};
  int32_t spares = 0;  // that wait for a machine to be lost; none of them is a machine

  friend bool operator==(const MachineCounts&, const MachineCounts&) = default;
};

struct MachineStatus {
  int32_t index = 0;
  std::string pod{};
  std::string node{};
  MachineState state = MachineState::kAbsent;
  int32_t replacements = 0;
  std::string binding{};  // of its processes: None, Partial, or as asked; empty while unknown
  std::optional<Usage> usage{};  // as it was when the status was written

  friend bool operator==(const MachineStatus&, const MachineStatus&) = default;
};

// Restarts that were made; `counters` is what budgets go by, and has the failures.
struct RestartCounts {
  int32_t total = 0;
  int32_t application = 0;
  int32_t infrastructure = 0;
  int32_t stopped = 0;

  friend bool operator==(const RestartCounts&, const RestartCounts&) = default;
};

struct LastFailure {
  std::optional<WallTime> time{};
  uint32_t epoch = 0;
  Generation generation{};
  std::string node{};
  Failure failure;  // its fields stand beside the others

  friend bool operator==(const LastFailure&, const LastFailure&) = default;
};

// One generation that did not succeed, and how the next one came, if any did.
struct RestartRecord {
  Generation generation{};  // the one that ended
  Cause cause = Cause::kNone;
  int32_t machine = -1;  // of the root cause; -1: none
  std::optional<WallTime> detected{};
  std::optional<WallTime> respawned{};   // every rank of the next one was exec'ed
  std::optional<WallTime> first_step{};  // of the next one
  std::optional<int64_t> lost_steps{};   // done again; unknown where processes report no steps
  std::string reason{};                  // of a restart on request: who asked, and why
  std::string code{};                    // the digest of the code that it ran; "": not known

  friend bool operator==(const RestartRecord&, const RestartRecord&) = default;
};

// Interpreters that wait to be the next generation's ranks (docs/guides/prestart.md).
struct PrestartStatus {
  int32_t ready = 0;               // of `processes`
  std::string reason{};            // why there are fewer
  int32_t warm = 0;                // generations whose ranks all started from these
  int32_t cold = 0;                // the others
  int64_t saved_milliseconds = 0;  // of imports that the warm ones found done
  Generation counted{};            // the last that is counted

  friend bool operator==(const PrestartStatus&, const PrestartStatus&) = default;
};

struct ProgressMetric {
  std::string name{};
  std::string value{};  // a number as text: the Kubernetes API has no floats

  friend bool operator==(const ProgressMetric&, const ProgressMetric&) = default;
};

struct JobProgress {
  int64_t step = 0;
  int64_t total_steps = 0;  // 0: not said
  int32_t percent = 0;
  std::optional<int64_t> eta_seconds{};
  std::vector<ProgressMetric> metrics{};
  std::string source{};  // Reports or Output
  std::optional<WallTime> last_updated{};

  friend bool operator==(const JobProgress&, const JobProgress&) = default;
};

// The source of its quota (docs/guides/queues.md).
struct QueueStatus {
  std::string workload{};                        // what is queued for it
  std::string cluster_queue{};                   // that admitted it; empty while it waits
  std::map<std::string, std::string> flavors{};  // what it is to run on, by resource

  friend bool operator==(const QueueStatus&, const QueueStatus&) = default;
};

// The PodGroup of a gang, which schedulers read (docs/guides/queues.md).
struct PodGroupStatus {
  std::string name{};
  GangScheduler gang = GangScheduler::kNone;  // whose it is

  friend bool operator==(const PodGroupStatus&, const PodGroupStatus&) = default;
};

// Which machines take part where some may be left out (spec.elastic), as it was decided.
struct ElasticStatus {
  Members members{};         // those of the next generation, if not of this one
  Members witnesses{};       // members of a generation that an earlier machine 0 may still run
  Members asked{};           // that were asked to leave, and have found no other node yet
  MachineAttempts silent{};  // lost for silence; charged unless their nodes are lost too
  Members without_quota{};   // left out, and given back to a queue: they have no pods
  std::optional<WallTime> since{};  // they are these
  std::string reason{};             // why

  friend bool operator==(const ElasticStatus&, const ElasticStatus&) = default;
};

// The last restart that spec.restartRequest asked for.
struct RestartStatus {
  std::string id{};
  std::string reason{};
  std::string requested_by{};
  bool at_commit = false;
  uint32_t attempt = 0;             // of machine 0, which carries it out; 0: no gang was there
  std::optional<WallTime> asked{};  // it was recorded
  std::optional<WallTime> done{};   // a younger generation has begun, or begins next

  friend bool operator==(const RestartStatus&, const RestartStatus&) = default;
};

// The code that a user synced into the ranks' folder (lockstep run --sync, kubectl lockstep sync).
struct CodeStatus {
  std::string digest{};
  int32_t files = 0;
  std::string by{};  // who synced it
  std::optional<WallTime> since{};
  Generation generation{};  // the first that runs it; none: the next one will

  friend bool operator==(const CodeStatus&, const CodeStatus&) = default;
};

// A node that a gang had trouble with, and what was seen there.
struct SuspectNode {
  std::string node{};
  std::string evidence{};  // Lost, Failed, Straggler or Slow
  int32_t count = 0;       // how often
  std::optional<WallTime> last{};
  std::string message{};  // of the last time

  friend bool operator==(const SuspectNode&, const SuspectNode&) = default;
};

struct Timings {
  std::optional<WallTime> created{};
  std::optional<WallTime> scheduled{};
  std::optional<WallTime> started{};
  std::optional<WallTime> first_step{};
  std::optional<WallTime> finished{};

  friend bool operator==(const Timings&, const Timings&) = default;
};

struct JobStatus {
  JobState state = JobState::kPending;
  std::string reason;         // why it is in this state, in words a user can act on
  std::string ready;          // "3/4"
  int32_t processes = 0;      // numMachines x processesPerMachine
  std::string progress_text;  // "1200/5000 24% eta 1h10m"
  int64_t observed_generation = 0;
  std::vector<Condition> conditions;

  // The fence: raised and recorded before its first use (docs/internals/architecture.md).
  uint32_t epoch = 0;          // 0: nothing was ever made
  uint32_t created_epoch = 0;  // every pod of epochs up to it was created: where one of them is
                               // absent, its machine is lost
  MachineAttempts attempts;    // the current one of each machine
  AgentVersion agent;
  std::optional<JobVerdict> verdict;

  // State that a new operator or coordinator must keep.
  Counters counters;
  Duration machine_lost_after{};  // the highest L ever in force; 0: none yet

  Generation gang_generation;  // the last that was announced
  int32_t replicas = 0;        // N of the epoch's gang
  std::string selector;
  MachineCounts machines;
  std::vector<MachineStatus> machine_statuses;  // worst first
  RestartCounts restarts;
  std::optional<LastFailure> last_failure;
  std::vector<RestartRecord> history;        // oldest first
  std::optional<Ledger> ledger;              // absent until machines were made
  std::optional<PrestartStatus> prestart;    // absent where PrestartOf is Never
  std::optional<PreflightStatus> preflight;  // absent until machines were measured
  std::optional<JobProgress> progress;
  std::optional<QueueStatus> queue;      // absent where it is not queued
  std::optional<ElasticStatus> elastic;  // absent where all machines take part
  // Named before it is made, and until it is seen to be gone.
  std::optional<PodGroupStatus> pod_group;
  std::optional<RestartStatus> restart;    // absent until one was asked for
  std::optional<CodeStatus> code;          // absent where no code was synced
  std::vector<SuspectNode> suspect_nodes;  // worst first
  Timings timings;

  friend bool operator==(const JobStatus&, const JobStatus&) = default;
};

inline constexpr size_t kMaxStatusBytes = size_t{64} << 10;  // of its JSON
inline constexpr size_t kMaxStatusString = 256;
inline constexpr size_t kMaxStatusStderr = 1024;
inline constexpr size_t kMaxMachineStatuses = 100;
inline constexpr size_t kMaxStatusHistory = 10;
inline constexpr size_t kMaxConditions = 16;
inline constexpr size_t kMaxMetrics = 16;
inline constexpr size_t kMaxSuspectNodes = 20;

// The last steps of the writer. Shorten orders machine_statuses and keeps the worst, keeps the
// newest history, cuts strings between two characters (stderr keeps its end), replaces bytes that
// are not UTF-8 and rounds times down to milliseconds. Trim then shortens the lists until ToJson
// fits kMaxStatusBytes. A second call changes nothing.
void Shorten(JobStatus& status);
void Trim(JobStatus& status);

// Puts `wanted` in place of the condition of its type, or adds it. lastTransitionTime becomes `now`
// if its status changed, else stays. Whether anything changed.
bool SetCondition(std::vector<Condition>& conditions, Condition wanted, WallTime now);
// Null when there is none.
const Condition* FindCondition(const std::vector<Condition>& conditions, std::string_view type);

// Defaults are left out, except counts.
Node ToNode(const JobStatus& status);
std::string ToJson(const JobStatus& status);

// Unknown fields are ignored, because a newer operator may have written them. Invalid: a field of a
// wrong type, an unknown name, a number out of range; TooLarge: a list beyond its limit. The
// message names the field. No node, null and {} are an empty status.
Result<JobStatus> ReadJobStatus(const Node* status);
Result<JobStatus> ParseJobStatus(std::string_view json);

// clang-format off
template <> inline constexpr auto kEnumNames<JobState> = std::to_array<EnumName<JobState>>(
    {{JobState::kPending, "Pending"}, {JobState::kQueued, "Queued"},
     {JobState::kStarting, "Starting"},
     {JobState::kRunning, "Running"}, {JobState::kRestarting, "Restarting"},
     {JobState::kStopping, "Stopping"}, {JobState::kSuspended, "Suspended"},
     {JobState::kSucceeded, "Succeeded"}, {JobState::kFailed, "Failed"}});
template <> inline constexpr auto kEnumNames<MachineState> = std::to_array<EnumName<MachineState>>(
    {{MachineState::kLost, "Lost"}, {MachineState::kFailed, "Failed"},
     {MachineState::kAbsent, "Absent"}, {MachineState::kPending, "Pending"},
     {MachineState::kStarting, "Starting"}, {MachineState::kDraining, "Draining"},
     {MachineState::kStopping, "Stopping"}, {MachineState::kStopped, "Stopped"},
     {MachineState::kIdle, "Idle"}, {MachineState::kRunning, "Running"},
     {MachineState::kFinished, "Finished"}, {MachineState::kSucceeded, "Succeeded"}});
template <> inline constexpr auto kEnumNames<Condition::Value> =
    std::to_array<EnumName<Condition::Value>>(
    {{Condition::Value::kTrue, "True"}, {Condition::Value::kFalse, "False"},
     {Condition::Value::kUnknown, "Unknown"}});
// clang-format on

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_STATUS_STATUS_H_
