// The bodies of `GET /status` and `PUT /gang`, as JSON, in both directions: agents write the one
// and read the other, the operator and `lockstep run` the reverse (docs/reference/protocol.md).
#ifndef LOCKSTEP_CORE_GANG_STATUS_API_H_
#define LOCKSTEP_CORE_GANG_STATUS_API_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "core/gang/coordinator.h"
#include "core/gang/machine_progress.h"
#include "core/gang/member.h"
#include "core/gang/messages.h"
#include "core/gang/progress.h"
#include "core/gang/stragglers.h"

namespace lockstep::core {

// A machine's state as the gang tells it: its member's phase, or what the coordinator thinks of it.
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

// Whoever answers tells its own: a coordinator's, or from other machines the member's.
using GangPhase = std::variant<CoordinatorPhase, MemberPhase>;
const char* ToString(const GangPhase& phase);

// What one agent knows of the gang. A member fills machines with itself and machine 0 only.
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
    std::string slow = {};  // why `replace`, where preflight says so
    std::optional<Usage> usage = {};
  };
  // Times since the answering agent was born.
  using GenerationStatus = GenerationRecord;

  uint64_t version = 0;
  std::string job_uid;
  uint32_t machine = 0;  // who answers
  uint32_t attempt = 0;
  bool coordinator = false;
  uint32_t machine0_attempt = 0;
  uint32_t epoch = 0;               // of the latest desired state; 0: none yet
  int64_t observed_generation = 0;  // likewise
  std::string restarted;            // the last restart that was asked for and carried out
  GangPhase phase;
  std::string reason;
  std::optional<Duration> starts_again;  // since the answering agent was born; in phase Backoff
  Generation generation;
  Counters counters;
  std::vector<MachineStatus> machines;
  std::vector<RankProgress> progress;  // of the first kMaxProgressInStatus ranks
  MachineProgress by_machine;          // of all ranks, where they are more and it was asked for
  std::vector<GenerationStatus> history;
  Failure last_failure;
  std::optional<Straggler> straggler;
  std::optional<SuspectedHang> hang;
  std::optional<PreflightStatus> preflight;  // absent where there is none
  uint32_t parked = 0;        // interpreters that wait to be the next ranks, of all machines
  std::string parked_reason;  // why they are fewer than ranks, of the first machine with a reason
  std::optional<Verdict> verdict;
  std::string unwritten;  // a checkpoint in memory that did not reach the folder, and why
  std::string doubt;      // why the ranks may not form the job's one world, and what to do
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
  std::optional<Counters> counters;      // of machine 0 all; of others as START told them
  std::optional<GangProgress> progress;  // of the ranks this agent knew: machine 0's knew all
  std::string unwritten;                 // as in GangStatus; machine 0 tells it
  std::string doubt;                     // as GangStatus has it; machine 0 tells it
  // As the verdict has them; without a verdict, machine 0's own. The oldest are left out where the
  // message has no room.
  std::vector<GenerationRecord> ended;
};
inline constexpr size_t kMaxTerminationMessage = 3500;
std::string ToJson(const Termination& termination);
Result<Termination> ParseTermination(std::string_view json);

// An exit of an agent decides the job if its message is of a verdict, the pod is its machine's
// current attempt, and no machine-0 attempt above that generation's coordinator is recorded.
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

#endif  // LOCKSTEP_CORE_GANG_STATUS_API_H_
