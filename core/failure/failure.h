// Failures of a gang: the record in `status.lastFailure` and in the termination message, and the
// policy that decides what follows. Pure functions.
#ifndef LOCKSTEP_CORE_FAILURE_FAILURE_H_
#define LOCKSTEP_CORE_FAILURE_FAILURE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/text/enum_names.h"
#include "base/time.h"
#include "core/failure/causes.h"

namespace lockstep::core {

// The death of a process, a hang, or the loss of a machine. The same record goes from the agent
// that detects it to the coordinator, into the root cause and to `status.lastFailure`. -1: does not
// apply.
struct Failure {
  Cause cause = Cause::kNone;
  int machine = -1;
  int rank = -1;
  int exit_code = -1;  // 0..255; -1 when it died of a signal or no process is to blame
  int signal = 0;      // 0 when it exited by itself
  // when it was noticed, on its machine's clock; in a root cause on machine 0's clock
  Time at = kNever;
  bool by_itself = false;   // it died before its machine signalled it
  std::string message;      // one sentence for people, naming machine, rank and code or signal
  std::string stderr_tail;  // its last lines, valid UTF-8, at most 1 KiB
  // With cause kBrokenMetric: the first step whose value matched, the last one, and the rule's
  // place among those that the generation's START has.
  int64_t step = 0;
  int64_t last_step = 0;
  int rule = -1;

  friend bool operator==(const Failure&, const Failure&) = default;
};

inline constexpr size_t kMaxFailureText = 1024;  // most bytes of each text of a Failure in JSON

// The kind of a root cause in messages and in JSON.
template <>
inline constexpr auto kFields<Failure> = std::tuple(
    Field{"cause", &Failure::cause, Always{}}, Field{"machine", &Failure::machine},
    Field{"rank", &Failure::rank}, Field{"exitCode", &Failure::exit_code},
    Field{"signal", &Failure::signal}, Field{"message", &Failure::message, CutTo{kMaxFailureText}},
    Field{"stderr", &Failure::stderr_tail, CutTo{kMaxFailureText}}, Field{"step", &Failure::step});

enum class FailureAction : uint8_t {
  kRestart,
  kFail,
  kReplaceMachine,
  kRestartFromEarlier,  // from a checkpoint before the first bad step; of rules about a metric
  kReport,              // the gang goes on; likewise
};

template <>
inline constexpr auto kEnumNames<FailureAction> = std::to_array<EnumName<FailureAction>>(
    {{FailureAction::kRestart, "Restart"},
     {FailureAction::kFail, "Fail"},
     {FailureAction::kReplaceMachine, "ReplaceMachine"},
     {FailureAction::kRestartFromEarlier, "RestartFromEarlier"},
     {FailureAction::kReport, "Report"}});

// What a rule about a metric asks of its value.
enum class MetricIs : uint8_t { kNotFinite };

template <>
inline constexpr auto kEnumNames<MetricIs> =
    std::to_array<EnumName<MetricIs>>({{MetricIs::kNotFinite, "NotFinite"}});

// What follows if a machine keeps the others waiting.
enum class Stragglers : uint8_t { kReport, kReplace };

template <>
inline constexpr auto kEnumNames<Stragglers> = std::to_array<EnumName<Stragglers>>(
    {{Stragglers::kReport, "Report"}, {Stragglers::kReplace, "Replace"}});

// What follows if a machine's node is sick, or is to be emptied.
enum class NodeHealth : uint8_t { kIgnore, kAtCheckpoint, kNow };

template <>
inline constexpr auto kEnumNames<NodeHealth> =
    std::to_array<EnumName<NodeHealth>>({{NodeHealth::kIgnore, "Ignore"},
                                         {NodeHealth::kAtCheckpoint, "AtCheckpoint"},
                                         {NodeHealth::kNow, "Now"}});

// One of `failurePolicy.rules`. A rule without `metric` is about the end of a process: every list
// that is not empty must match, and the first match wins. A rule with `metric` is about a figure
// that a rank reports or prints, while it runs (core/gang/diagnosis/metric_watch.h).
struct FailureRule {
  std::vector<int> exit_codes;
  std::vector<int> signals;                  // numbers; names (SIGBUS) in the file
  std::string stderr_regex;                  // RE2 over the last lines; empty: any
  std::optional<FailureAction> action = {};  // none: as ActionOf has it

  std::string metric = {};  // loss, or another figure's name
  // One of these three says which values are bad.
  std::optional<MetricIs> is = {};
  std::optional<double> above = {};
  std::string rises_by =
      {};  // "3x": above so many times the lowest value of the last `within` steps
  int64_t within = 100;
  int64_t for_steps = 1;  // steps over which each value is bad
  // With kRestartFromEarlier: data of so many steps, up to the last bad one, is left out.
  int64_t skip_steps = 0;
  int at_most = 3;  // likewise: restarts of this kind in the job's life

  friend bool operator==(const FailureRule&, const FailureRule&) = default;
};

struct FailurePolicy {
  int max_restarts = 3;
  int max_machine_replacements = 10;
  Duration reset_after = hours(1);
  Duration restart_grace_period = Duration::zero();
  Duration machine_lost_after = seconds(15);  // L
  Stragglers stragglers = Stragglers::kReport;
  NodeHealth node_health = NodeHealth::kAtCheckpoint;
  std::vector<FailureRule> rules;  // the user's; the defaults follow them

  friend bool operator==(const FailurePolicy&, const FailurePolicy&) = default;
};

// Report for a rule about a metric, and else Restart.
FailureAction ActionOf(const FailureRule& rule);
// 3 of "3x"; none: it is no such text, or not above 1.
std::optional<double> FactorOf(const std::string& rises_by);
// The rules about a metric, in their order.
std::vector<FailureRule> MetricRules(const FailurePolicy& policy);
// Takes them out of the policy and leaves an empty rule, which matches nothing, in the place of
// each; and back again.
std::vector<FailureRule> SplitMetricRules(FailurePolicy* policy);
void JoinMetricRules(FailurePolicy* policy, const std::vector<FailureRule>& rules);

inline constexpr int64_t kMostRuleSteps = 1'000'000;
inline constexpr Within kMachineLostAfterLimits{seconds(2), minutes(10)};

template <>
inline constexpr auto kFields<FailureRule> = std::tuple(
    Field{"exitCodes", &FailureRule::exit_codes, AtMost{255}, Between{1, 255}},
    Field{"signals", &FailureRule::signals, Signals{}, AtMost{32}},
    Field{"stderr", &FailureRule::stderr_regex, AtMost{1024}},
    Field{"metric", &FailureRule::metric, AtMost{64}}, Field{"is", &FailureRule::is},
    Field{"above", &FailureRule::above}, Field{"risesBy", &FailureRule::rises_by, AtMost{14}},
    Field{"within", &FailureRule::within, Between{1, kMostRuleSteps}},
    Field{"for", &FailureRule::for_steps, Between{1, kMostRuleSteps}},
    Field{"skipSteps", &FailureRule::skip_steps, Between{0, kMostRuleSteps}},
    Field{"atMost", &FailureRule::at_most, Between{1, 1000}},
    Field{"action", &FailureRule::action});

template <>
inline constexpr auto kFields<FailurePolicy> = std::tuple(
    Field{"maxRestarts", &FailurePolicy::max_restarts, Between{0}},
    Field{"maxMachineReplacements", &FailurePolicy::max_machine_replacements, Between{0}},
    Field{"resetAfter", &FailurePolicy::reset_after},
    Field{"restartGracePeriod", &FailurePolicy::restart_grace_period},
    Field{"machineLostAfter", &FailurePolicy::machine_lost_after, kMachineLostAfterLimits},
    Field{"stragglers", &FailurePolicy::stragglers},
    Field{"nodeHealth", &FailurePolicy::node_health},
    Field{"rules", &FailurePolicy::rules, AtMost{64}});

// The rules that follow the user's: exit codes 2, 126 and 127 fail the job, 76 replaces the
// machine.
const std::vector<FailureRule>& DefaultRules();

// A process that lived this long did not crash at its start.
inline constexpr Duration kShortLife = seconds(60);

// The coordinator's knowledge when a generation has ended, or a rank that is started again alone.
struct FailureContext {
  Failure failure;                    // the root cause
  int application_failures_used = 0;  // failures charged since the last reset, without this one
  int machine_failures_used = 0;      // the same; counted by the operator
  Duration lived = Duration::zero();  // life of the ended generation, since all ranks were spawned
  bool first_step_seen = false;       // a process reported a step in it
  bool reports = false;               // a process reported progress before or in it
  bool lives_on = false;              // a process of it survives into the next one
  int short_lives = 0;                // short-lived generations in a row before it
  // root cause of the generation before it, if that one ended before a first step
  std::optional<Failure> previous;
  std::optional<FailureRule> metric_rule = {};  // which a metric broke
  int earlier = 0;  // restarts from an earlier checkpoint that this job has had
};

struct FailureDecision {
  FailureAction action = FailureAction::kRestart;
  Cause cause = Cause::kNone;           // kEarlyCrash, kRestartsExhausted or the failure's own
  Duration backoff = Duration::zero();  // wait before the next generation; 0 at the first restart
  int exit_code = 0;                    // exit code of the agent if action is kFail: 70, 77 or 78
  std::string reason;                   // the reason, for users, with what to do
};

// Whether the next try waits because the generation lived less than 60 s. A generation that made a
// step and has survivors lost only the step in flight, so its survivors never wait.
bool IsShortLife(const FailureContext& context);

// The wait of the next try after this many failures in a row: 0, 1, 5, 30, 30, ... s.
Duration BackoffAfter(int failures);

// Exit code of a failed job, for `lockstep run` and status.verdict. If a process is to blame, it is
// that process's code (128 + N for a signal). Else it is 75 if machines were lost, else `code`, the
// exit code of the agents.
int ExitCodeOfJob(const Failure& failure, int code);

// Applies rules, EarlyCrash, budgets and backoff. The backoff is 0 s at first and after a long
// life, else 1, 5, 30, 30, ... s by short_lives.
FailureDecision DecideFailure(const FailurePolicy& policy, const FailureContext& context);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_FAILURE_FAILURE_H_
