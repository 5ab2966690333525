// Failures of a gang: causes, the record that `status.lastFailure` and the termination message
// hold, and the policy that decides what follows. Pure functions.
#ifndef LOCKSTEP_CORE_FAILURE_FAILURE_H_
#define LOCKSTEP_CORE_FAILURE_FAILURE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/text/enum_names.h"
#include "base/time.h"

namespace lockstep::core {

enum class Cause : uint8_t {
  kNone,
  kProcessExit,        // a process exited with a code other than 0
  kProcessSignal,      // a process died of a signal
  kCommandNotFound,    // the command could not be started (exit 126, 127)
  kOutOfMemory,        // the container, or a rank of it, went over its memory limit
  kEarlyCrash,         // the same rank failed the same way twice soon after its start
  kHang,               // no progress line for hangTimeout
  kMachineLost,        // a machine fell silent for L, or its agent is gone
  kLeaseExpired,       // a lease ran out, yet every machine came back
  kUnkillable,         // a process would not die within 30 s of SIGKILL
  kConfiguration,      // the job cannot run as it is written
  kRestartsExhausted,  // never a root cause: the budget that ended the job
  kStopRequested,      // suspend, drain, deadline, scale, delete: costs no budget
};

// As in status and in metrics' label `cause`.
template <>
inline constexpr auto kEnumNames<Cause> = std::to_array<EnumName<Cause>>({
    {Cause::kNone, "None"},
    {Cause::kProcessExit, "ProcessExit"},
    {Cause::kProcessSignal, "ProcessSignal"},
    {Cause::kCommandNotFound, "CommandNotFound"},
    {Cause::kOutOfMemory, "OutOfMemory"},
    {Cause::kEarlyCrash, "EarlyCrash"},
    {Cause::kHang, "Hang"},
    {Cause::kMachineLost, "MachineLost"},
    {Cause::kLeaseExpired, "LeaseExpired"},
    {Cause::kUnkillable, "Unkillable"},
    {Cause::kConfiguration, "Configuration"},
    {Cause::kRestartsExhausted, "RestartsExhausted"},
    {Cause::kStopRequested, "StopRequested"},
});

inline constexpr int kCauseCount = static_cast<int>(kEnumNames<Cause>.size());

// Which budget a cause is charged to.
enum class CauseClass : uint8_t { kNone, kApplication, kInfrastructure, kStopped };
CauseClass ClassOf(Cause cause);

template <>
inline constexpr auto kEnumNames<CauseClass> =
    std::to_array<EnumName<CauseClass>>({{CauseClass::kNone, "none"},
                                         {CauseClass::kApplication, "application"},
                                         {CauseClass::kInfrastructure, "infrastructure"},
                                         {CauseClass::kStopped, "stopped"}});

// The death of a process, a hang, or the loss of a machine: one record from whoever sees it,
// through the report to the coordinator and its root cause, to `status.lastFailure`. -1: does not
// apply.
struct Failure {
  Cause cause = Cause::kNone;
  int machine = -1;
  int rank = -1;
  int exit_code = -1;       // 0..255; -1 when it died of a signal or no process is to blame
  int signal = 0;           // 0 when it exited by itself
  Time at = kNever;         // when it began, as far as noticed, on its machine's clock; a root
                            // cause's: machine 0's
  bool by_itself = false;   // before its machine had signalled it
  std::string message;      // one sentence for people, naming machine, rank and code or signal
  std::string stderr_tail;  // its last lines, valid UTF-8, at most 1 KiB

  friend bool operator==(const Failure&, const Failure&) = default;
};

inline constexpr size_t kMaxFailureText = 1024;  // bytes of each text of a Failure in JSON

// As a root cause, in messages and in JSON.
template <>
inline constexpr auto kFields<Failure> = std::tuple(
    Field{"cause", &Failure::cause, Always{}}, Field{"machine", &Failure::machine},
    Field{"rank", &Failure::rank}, Field{"exitCode", &Failure::exit_code},
    Field{"signal", &Failure::signal}, Field{"message", &Failure::message, CutTo{kMaxFailureText}},
    Field{"stderr", &Failure::stderr_tail, CutTo{kMaxFailureText}});

enum class FailureAction : uint8_t { kRestart, kFail, kReplaceMachine };

template <>
inline constexpr auto kEnumNames<FailureAction> =
    std::to_array<EnumName<FailureAction>>({{FailureAction::kRestart, "Restart"},
                                            {FailureAction::kFail, "Fail"},
                                            {FailureAction::kReplaceMachine, "ReplaceMachine"}});

// What follows when a machine keeps the others waiting.
enum class Stragglers : uint8_t { kReport, kReplace };

template <>
inline constexpr auto kEnumNames<Stragglers> = std::to_array<EnumName<Stragglers>>(
    {{Stragglers::kReport, "Report"}, {Stragglers::kReplace, "Replace"}});

// One of `failurePolicy.rules`; every list that is not empty must match. First match wins.
struct FailureRule {
  std::vector<int> exit_codes;
  std::vector<int> signals;  // numbers; names (SIGBUS) in the file
  std::string stderr_regex;  // RE2 over the last lines; empty: any
  FailureAction action = FailureAction::kRestart;

  friend bool operator==(const FailureRule&, const FailureRule&) = default;
};

struct FailurePolicy {
  int max_restarts = 3;
  int max_machine_replacements = 10;
  Duration reset_after = hours(1);
  Duration restart_grace_period = Duration::zero();
  Duration machine_lost_after = seconds(15);  // L
  Stragglers stragglers = Stragglers::kReport;
  std::vector<FailureRule> rules;  // the user's; the defaults follow them

  friend bool operator==(const FailurePolicy&, const FailurePolicy&) = default;
};

inline constexpr Within kMachineLostAfterLimits{seconds(2), minutes(10)};

template <>
inline constexpr auto kFields<FailureRule> =
    std::tuple(Field{"exitCodes", &FailureRule::exit_codes, AtMost{255}, Between{1, 255}},
               Field{"signals", &FailureRule::signals, Signals{}, AtMost{32}},
               Field{"stderr", &FailureRule::stderr_regex, AtMost{1024}},
               Field{"action", &FailureRule::action});

template <>
inline constexpr auto kFields<FailurePolicy> = std::tuple(
    Field{"maxRestarts", &FailurePolicy::max_restarts, Between{0}},
    Field{"maxMachineReplacements", &FailurePolicy::max_machine_replacements, Between{0}},
    Field{"resetAfter", &FailurePolicy::reset_after},
    Field{"restartGracePeriod", &FailurePolicy::restart_grace_period},
    Field{"machineLostAfter", &FailurePolicy::machine_lost_after, kMachineLostAfterLimits},
    Field{"stragglers", &FailurePolicy::stragglers},
    Field{"rules", &FailurePolicy::rules, AtMost{64}});

// The rules that stand behind the user's: exit codes 2, 126 and 127 fail the job,
// 76 replaces the machine.
const std::vector<FailureRule>& DefaultRules();

// What lives so long was no crash at the start.
inline constexpr Duration kShortLife = seconds(60);

// What the coordinator knows when a generation has ended, or a rank that is started again alone.
struct FailureContext {
  Failure failure;                    // the root cause
  int application_failures_used = 0;  // charged since the last reset, this one not counted
  int machine_failures_used = 0;      // likewise; counted by the operator
  Duration lived = Duration::zero();  // of the generation that ended, from all ranks spawned
  bool first_step_seen = false;       // a step of some process was known in it
  bool reports = false;               // progress of the job was known before or in it
  bool lives_on = false;              // some process of it goes on in the next one
  int short_lives = 0;                // generations before it, in a row, with a short life
  std::optional<Failure> previous;    // root cause of the generation before it, when that one
                                      // ended before a first step
};

struct FailureDecision {
  FailureAction action = FailureAction::kRestart;
  Cause cause = Cause::kNone;           // kEarlyCrash, kRestartsExhausted or the failure's own
  Duration backoff = Duration::zero();  // before the next generation; 0 at the first restart
  int exit_code = 0;                    // of the agent when action is kFail: 70, 77 or 78
  std::string reason;                   // why, in words a user can act on
};

// Whether the next try waits as after one that failed at once: the generation lived less than 60 s.
// A generation that made a step, and whose survivors live on, has lost nothing but the step in
// flight: however soon it ended, its survivors do not wait.
bool IsShortLife(const FailureContext& context);

// How long the next try waits after so many failures in a row: 0, 1, 5, 30, 30, ... s.
Duration BackoffAfter(int failures);

// Exit code of a job that failed, as `lockstep run` leaves with it and status.verdict has it: the
// root cause's own (128 + N of a signal) where a process is to blame, else 75 when machines were
// lost, else `code`, with which the agents left.
int ExitCodeOfJob(const Failure& failure, int code);

// Rules, EarlyCrash, budgets, backoff: 0 s at first and after a life that was not short, else 1, 5,
// 30, 30, ... s by short_lives.
FailureDecision DecideFailure(const FailurePolicy& policy, const FailureContext& context);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_FAILURE_FAILURE_H_
