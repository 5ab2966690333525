// The bodies of `GET /status` and `PUT /gang`, as JSON, in both directions: agents write the one
// and read the other, the operator and `lockstep run` the reverse. docs/protocol.md lists them.
#ifndef LOCKSTEP_CORE_GANG_BODIES_H_
#define LOCKSTEP_CORE_GANG_BODIES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "core/gang/coordinator.h"
#include "core/gang/member.h"
#include "core/gang/messages.h"
#include "core/gang/progress.h"

namespace lockstep::core {

// What one agent knows of the gang. A member fills machines with itself and machine 0 only.
struct GangStatus {
  struct MachineStatus {
    uint32_t index = 0;
    uint32_t attempt = 0;
    std::string state;  // a MemberPhase, "Lost", "Draining" or "Absent"
    Duration silent_for{};
    bool connected = false;
    bool replace = false;
    std::string binding;  // None, Partial or Node; empty while unknown
    std::string binding_reason;
  };
  // Times are durations since the answering agent was born; nullopt: has not happened.
  struct GenerationStatus {
    Generation generation;
    std::optional<Duration> announced;
    std::optional<Duration> spawned;
    std::optional<Duration> first_step;
    std::optional<Duration> died;
    std::optional<Duration> stop_sent;
    std::optional<Duration> all_stopped;
    std::optional<Duration> ended;
    std::string stop_reason;  // empty while it runs or when it ended well
    std::string resume;
    int64_t resumed_at = 0;  // steps, as in GenerationRecord
    int64_t last_step = 0;
    Failure failure;
  };
  uint64_t version = 0;
  std::string job_uid;
  uint32_t machine = 0;  // who answers
  uint32_t attempt = 0;
  bool coordinator = false;
  uint32_t machine0_attempt = 0;
  std::string phase;  // a CoordinatorPhase, or a MemberPhase from a member
  std::string reason;
  std::optional<Duration> starts_again;  // since the answering agent was born; in phase Backoff
  Generation generation;
  Counters counters;
  std::vector<MachineStatus> machines;
  std::vector<RankProgress> progress;
  std::vector<GenerationStatus> history;
  Failure last_failure;
  std::optional<Verdict> verdict;
};

// `born`: when this agent started, on the clock of `now`.
GangStatus StatusOf(const Coordinator& coordinator, Time now, Time born);
GangStatus StatusOf(const Member& member, Time now);

inline constexpr size_t kMaxStatusBody = 256 * 1024;
inline constexpr size_t kMaxGangBody = 64 * 1024;

std::string ToJson(const GangStatus& status);
Result<GangStatus> ParseGangStatus(std::string_view json);

std::string ToJson(const GangWish& wish);
Result<GangWish> ParseGangWish(std::string_view json);

// The container's termination message: `lastFailure` of api.md and the verdict, at most
// kMaxTerminationMessage bytes of JSON. `verdict` is null when the agent leaves without one.
struct Termination {
  int exit_code = 0;
  Generation generation;
  uint32_t machine = 0;
  uint32_t attempt = 0;
  bool verdict = false;
  std::string reason;
  Failure failure;
  std::optional<Counters> counters;      // machine 0 tells them
  std::optional<GangProgress> progress;  // of the ranks this agent knew: machine 0's knew all
};
inline constexpr size_t kMaxTerminationMessage = 3500;
std::string ToJson(const Termination& termination);
Result<Termination> ParseTermination(std::string_view json);

// An exit of an agent decides the job if its message is of a verdict, the pod is its machine's
// current attempt, and no machine-0 attempt above that generation's coordinator is recorded.
bool VerdictCounts(const Termination& termination, uint32_t current_attempt,
                   uint32_t highest_machine0_attempt);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_GANG_BODIES_H_
