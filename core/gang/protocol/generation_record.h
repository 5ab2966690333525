// GenerationRecord: when a generation began and ended, and why. The coordinator keeps the records
// of its last generations. It reports them in its status, and those that have ended also in its
// verdict, because a reader of the status may ask too late. Pure.
#ifndef LOCKSTEP_CORE_GANG_PROTOCOL_GENERATION_RECORD_H_
#define LOCKSTEP_CORE_GANG_PROTOCOL_GENERATION_RECORD_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/text/enum_names.h"
#include "base/time.h"
#include "core/failure/failure.h"
#include "core/terms/generation.h"
#include "core/terms/members.h"

namespace lockstep::core {

enum class StopReason : uint8_t {
  kFailure,       // a process died; SIGKILL after restartGracePeriod
  kMachineLost,   // likewise
  kLeaseExpired,  // SIGKILL
  kSuspended,     // the operator's desired state
  kDraining,      // SIGTERM to an agent
  kDeadline,      // activeDeadlineSeconds
  kScaled,        // numMachines changed
  kDeleted,
  kFinished,   // the ranks that decide have exited 0; the others count as done
  kRestarted,  // somebody asked for a new generation; one follows at once
};
template <>
inline constexpr auto kEnumNames<StopReason> =
    std::to_array<EnumName<StopReason>>({{StopReason::kFailure, "Failure"},
                                         {StopReason::kMachineLost, "MachineLost"},
                                         {StopReason::kLeaseExpired, "LeaseExpired"},
                                         {StopReason::kSuspended, "Suspended"},
                                         {StopReason::kDraining, "Draining"},
                                         {StopReason::kDeadline, "Deadline"},
                                         {StopReason::kScaled, "Scaled"},
                                         {StopReason::kDeleted, "Deleted"},
                                         {StopReason::kFinished, "Finished"},
                                         {StopReason::kRestarted, "Restarted"}});

// One ended or running generation, for status and reports. In the coordinator, times are on
// its clock; in GangStatus, they count from the birth of the agent that answers.
struct GenerationRecord {
  Generation generation;
  std::optional<Time> announced;  // START sent
  std::optional<Time> spawned;    // every rank exec'ed
  std::optional<Time> first_step;
  std::optional<Time> halted;  // nothing came of it from here on: the root cause's event, the last
                               // step before a hang, a lost machine's last answer
  std::optional<Time> died;    // root cause's event
  std::optional<Time> stop_sent;
  std::optional<Time> all_stopped;
  std::optional<Time> ended;
  std::optional<StopReason> stop_reason;  // of the STOP that was sent
  std::string resume;                     // the checkpoint it went on from; "": none
  int64_t resumed_at = 0;  // the lowest step that a machine reported first; 0: none yet
  int64_t last_step = 0;   // the highest step that a rank reported
  Failure failure;         // cause kNone when it ended well
  bool warm = false;       // all its processes came of parked interpreters
  uint32_t kept = 0;       // processes that are those of the generation before
  Duration loaded{};       // what the slowest of them says that it loaded the checkpoint for
  Duration saved{};        // CPU time of imports that they found done, of the one with the most
  Members members = {};    // its machines, if some may be left out
  std::string code = {};   // the digest of the code that it runs; "": not known

  // On a clock that shows `by` more.
  GenerationRecord Shifted(Duration by) const;

  friend bool operator==(const GenerationRecord&, const GenerationRecord&) = default;
};

// A verdict and a termination message hold at most so many records.
inline constexpr size_t kMaxEnded = 16;
// The newest records of `history` that have ended, oldest first, on a clock that shows `shift`
// more: at most kMaxEnded, and as many as have room beside the other fields of a message. Their
// failures have no stderr tail.
std::vector<GenerationRecord> LastEnded(const std::vector<GenerationRecord>& history,
                                        Duration shift);
// Adds to `known` the records of `ended` that it lacks or has not seen end. Both are on one clock;
// `known` is in the order of generations and stays so.
void AddEnded(std::vector<GenerationRecord>& known, const std::vector<GenerationRecord>& ended);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_GANG_PROTOCOL_GENERATION_RECORD_H_
