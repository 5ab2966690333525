// What the operator of one job does next: a pure function of what it sees and the time. The
// operator on a cluster decides in the same form; here a machine is an agent process of this
// computer.
//
//   Decision decision = Decide(snapshot, now);
//   // carry it out, look again when something happens or at decision.wake
//
// Level-triggered: nothing in a Decision is lost by being carried out late, and deciding again from
// the same snapshot gives the same Decision.
#ifndef LOCKSTEP_CLI_RUN_DECIDE_H_
#define LOCKSTEP_CLI_RUN_DECIDE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "core/failure/failure.h"
#include "core/gang/bodies.h"

namespace lockstep::cli {

// How an agent ended. It stands in a snapshot only once nothing it started is alive.
struct AgentExit {
  int code = -1;  // -1 when a signal ended it
  int signal = 0;
  Time at{};
  std::optional<core::Termination> message;
  std::string last_words;  // the end of its own log
};

struct Machine {
  uint32_t attempt = 0;  // 0: never started
  int starts = 0;
  Time started{};
  bool running = false;
  bool terminated = false;        // SIGTERM was sent to this attempt
  bool killed = false;            // SIGKILL was
  std::optional<AgentExit> exit;  // of this attempt
};

// Somebody, or the job's deadline, wants the gang stopped.
struct StopWish {
  core::StopReason reason = core::StopReason::kSuspended;
  int exit_code = 0;
  Time at{};
};

struct Snapshot {
  std::string job_uid;
  core::FailurePolicy policy;
  Duration grace{};
  Duration active_deadline{};  // 0: none
  Time started{};
  uint32_t epoch = 0;
  uint32_t first_epoch = 0;  // of this run
  std::vector<Machine> machines;
  // Merged over all coordinators, so that a new one forgets no failure; replacements and their base
  // are this operator's own.
  core::Counters counters;
  Time last_replacement{};
  std::vector<core::GangWish::Terminated> ended;  // the last end of each machine, less machine 0's

  std::optional<core::GangStatus> coordinator;  // machine 0's last answer
  std::optional<core::GangStatus> member;       // another's, asked because machine 0 was silent
  bool wish_accepted = false;  // machine 0's current attempt took the wish that stands

  std::optional<StopWish> stop;
  bool kill = false;  // asked twice: at once
};

enum class JobState : uint8_t { kSucceeded, kFailed, kSuspended };
const char* ToString(JobState state);

struct Outcome {
  JobState state = JobState::kFailed;
  int exit_code = 0;  // of `lockstep run`
  std::string reason;
  core::Failure failure;        // cause kNone when there is none
  core::Generation generation;  // the verdict's; {0, 0} without one

  friend bool operator==(const Outcome&, const Outcome&) = default;
};

struct Decision {
  struct Kill {
    uint32_t machine = 0;
    std::string why;  // "": the user asked for it
  };
  std::vector<uint32_t> start;         // all with attempt epoch + 1, which is written down before
  std::vector<uint32_t> terminate;     // SIGTERM
  std::vector<Kill> kill;              // SIGKILL
  std::optional<core::GangWish> wish;  // what machine 0 is to know; nothing: nothing to say
  bool reset_replacements = false;     // the gang was well for resetAfter: the base is raised
  std::optional<Outcome> outcome;      // all is over and nothing is alive
  Time wake = kNever;                  // decide again then, though nothing happens
};

Decision Decide(const Snapshot& snapshot, Time now);

// Whether an agent's end is charged to the job's machine failures: not when it was told to leave,
// not when it left with the job's verdict.
bool IsMachineFailure(const Machine& machine, uint32_t machine0_attempt);

// The exit code of `lockstep run` for a verdict: the root cause's own where there is one.
int ExitCodeOf(const core::Termination& termination);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_RUN_DECIDE_H_
