// The bodies of `GET /status` and `PUT /gang`, as JSON, in both directions: agents write the one
// and read the other, the operator and `lockstep run` the reverse (docs/reference/protocol.md).
#ifndef LOCKSTEP_CORE_GANG_STATUS_STATUS_API_H_
#define LOCKSTEP_CORE_GANG_STATUS_STATUS_API_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "core/gang/coordinator/coordinator.h"
#include "core/gang/diagnosis/machine_progress.h"
#include "core/gang/diagnosis/progress.h"
#include "core/gang/diagnosis/stragglers.h"
#include "core/gang/member/member.h"
#include "core/gang/protocol/messages.h"

namespace lockstep::core {

// A machine's state in the gang: its member's phase, or the coordinator's view of it.
enum class GangMachineState : uint8_t {
  kJoining,  // to kExiting: as MemberPhase, in its order
  kIdle,
  kStarting,
  kRunning,
  kFinished,
  kStopping,
  kStopped,
  kExiting,
  kLost,
  kDraining,
  kAbsent,  // it has not joined yet
};

// The phase of the answering agent: the coordinator's, or on other machines the member's.
using GangPhase = std::variant<CoordinatorPhase, MemberPhase>;
const char* ToString(const GangPhase& phase);

// One agent's view of the gang. In a member's view, machines has only itself and machine 0.
struct GangStatus {
  struct MachineStatus {
    uint32_t index = 0;
    uint32_t attempt = 0;
    GangMachineState state = GangMachineState::kAbsent;
    Duration silent_for{};
    bool connected = false;
    bool replace = false;
    Binding binding = Binding::kUnknown;
    std::string binding_reason;
    std::string slow = {};  // the reason for `replace`, if preflight found the machine slow
    std::optional<Usage> usage = {};
  };
  // Times since the start of the answering agent.
  using GenerationStatus = GenerationRecord;

  uint64_t version = 0;
  std::string job_uid;
  uint32_t machine = 0;  // who answers
  uint32_t attempt = 0;
  bool coordinator = false;
  uint32_t machine0_attempt = 0;
  uint32_t epoch = 0;               // epoch of the latest desired state; 0: none yet
  int64_t observed_generation = 0;  // likewise
  std::string restarted;            // the last restart request that was carried out
  GangPhase phase;
  std::string reason;
  std::optional<Duration> starts_again;  // since the start of the answering agent; in phase Backoff
  Generation generation;
  Counters counters;
  std::vector<MachineStatus> machines;
  uint64_t commits = 0;                // checkpoints that this coordinator has granted
  std::vector<RankProgress> progress;  // of the first kMaxProgressInStatus ranks
  // of all ranks, if there are more and the client asked for it
  MachineProgress by_machine;
  std::vector<GenerationStatus> history;
  Failure last_failure;
  std::optional<Straggler> straggler;
  std::optional<SuspectedHang> hang;
  std::optional<Failure> noted_metric = {};  // broke a rule whose action is Report
  std::optional<PreflightStatus> preflight;  // absent where there is none
  uint32_t parked = 0;                       // parked interpreters of all machines
  // why they are fewer than the ranks, from the first machine with a reason
  std::string parked_reason;
  std::optional<Verdict> verdict;
  std::string unwritten;           // a checkpoint in memory that did not reach the folder, and why
  std::string doubt;               // why the ranks may not form one world, and what to do
  std::optional<SyncedCode> code;  // absent: the job has no sync
};

// `born`: when this agent started, on the clock of `now`.
// `by_machine`: with GangStatus::by_machine.
GangStatus StatusOf(const Coordinator& coordinator, Time now, Time born, bool by_machine = false);
GangStatus StatusOf(const Member& member, Time now);

inline constexpr size_t kMaxProgressInStatus = 512;
inline constexpr size_t kMaxRanksWithFigures = 64;    // the first; the others' are left out
inline constexpr size_t kMaxMachinesWithUsage = 256;  // likewise
inline constexpr size_t kMaxStatusBody = 1024 * 1024;
inline constexpr size_t kMaxGangBody = 512 * 1024;

std::string ToJson(const GangStatus& status);
Result<GangStatus> ParseGangStatus(std::string_view json);

std::string ToJson(const DesiredState& desired);
Result<DesiredState> ParseDesiredState(std::string_view json);

// The container's termination message: `lastFailure` of api.md and the verdict, at most
// kMaxTerminationMessage bytes of JSON. `verdict` is null when the agent leaves without one.
struct Termination {
  int exit_code = 0;
  Generation generation;
  uint32_t machine = 0;
  uint32_t attempt = 0;
  bool verdict = false;
  uint32_t needs_epoch = 0;  // as in ExitCoordinator
  std::string reason;
  Failure failure;
  std::optional<Counters> counters;      // machine 0: all; others: as in START
  std::optional<GangProgress> progress;  // of the ranks that this agent knew; machine 0 knew all
  std::string unwritten;                 // as in GangStatus; set by machine 0
  std::string doubt;                     // as in GangStatus; set by machine 0
  // As the verdict has them; without a verdict, machine 0's own. The oldest are left out where the
  // message has no room.
  std::vector<GenerationRecord> ended;
};
inline constexpr size_t kMaxTerminationMessage = 3500;
std::string ToJson(const Termination& termination);
Result<Termination> ParseTermination(std::string_view json);

// An agent's exit decides the job if three conditions hold: its message has a verdict, the pod is
// its machine's current attempt, and no attempt of machine 0 above that generation's coordinator is
// recorded.
bool VerdictCounts(const Termination& termination, uint32_t current_attempt,
                   uint32_t highest_machine0_attempt);

template <>
inline constexpr auto kEnumNames<GangMachineState> =
    std::to_array<EnumName<GangMachineState>>({{GangMachineState::kJoining, "Joining"},
                                               {GangMachineState::kIdle, "Idle"},
                                               {GangMachineState::kStarting, "Starting"},
                                               {GangMachineState::kRunning, "Running"},
                                               {GangMachineState::kFinished, "Finished"},
                                               {GangMachineState::kStopping, "Stopping"},
                                               {GangMachineState::kStopped, "Stopped"},
                                               {GangMachineState::kExiting, "Exiting"},
                                               {GangMachineState::kLost, "Lost"},
                                               {GangMachineState::kDraining, "Draining"},
                                               {GangMachineState::kAbsent, "Absent"}});

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_GANG_STATUS_STATUS_API_H_
