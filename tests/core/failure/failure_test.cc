#include "core/failure/failure.h"

#include <gtest/gtest.h>

#include <csignal>

namespace lockstep::core {
namespace {

Failure Exit(int code, int rank = 0) {
  Failure failure;
  failure.cause = Cause::kProcessExit;
  failure.machine = 0;
  failure.rank = rank;
  failure.exit_code = code;
  return failure;
}

Failure Signal(int signal, int rank = 0) {
  Failure failure = Exit(-1, rank);
  failure.cause = Cause::kProcessSignal;
  failure.signal = signal;
  return failure;
}

Failure Of(Cause cause) {
  Failure failure;
  failure.cause = cause;
  failure.machine = 1;
  return failure;
}

FailureContext After(Failure failure) {
  FailureContext context;
  context.failure = std::move(failure);
  return context;
}

FailureRule Rule(std::vector<int> exit_codes, FailureAction action) {
  FailureRule rule;
  rule.exit_codes = std::move(exit_codes);
  rule.action = action;
  return rule;
}

TEST(DecideFailure, RestartsAtOnceAfterAFirstFailure) {
  const FailureDecision decision = DecideFailure({}, After(Exit(3)));
  EXPECT_EQ(decision.action, FailureAction::kRestart);
  EXPECT_EQ(decision.cause, Cause::kProcessExit);
  EXPECT_EQ(decision.backoff, Duration::zero());
  EXPECT_EQ(decision.reason, "restart 1 of 3 allowed");
}

TEST(DecideFailure, FailsOnExitCodesThatNoRestartHeals) {
  const struct {
    int code;
    const char* says;
  } cases[] = {{2, "a missing file or library"},
               {2, "exitCodes: [2]"},
               {126, "cannot be executed"},
               {127, "not found"}};
  for (const auto& c : cases) {
    const FailureDecision decision = DecideFailure({}, After(Exit(c.code)));
    EXPECT_EQ(decision.action, FailureAction::kFail) << c.code;
    EXPECT_EQ(decision.exit_code, 70) << c.code;
    EXPECT_NE(decision.reason.find(c.says), std::string::npos) << decision.reason;
  }
}

TEST(DecideFailure, TakesASignalForNoExitCode) {
  EXPECT_EQ(DecideFailure({}, After(Signal(SIGINT))).action, FailureAction::kRestart)
      << "SIGINT is 2";
}

TEST(DecideFailure, AsksTheUsersRulesBeforeTheDefaults) {
  FailurePolicy policy;
  policy.rules = {Rule({2}, FailureAction::kRestart)};
  EXPECT_EQ(DecideFailure(policy, After(Exit(2))).action, FailureAction::kRestart);
}

TEST(DecideFailure, TakesTheFirstRuleThatMatches) {
  FailurePolicy policy;
  policy.rules = {Rule({5, 6}, FailureAction::kFail), Rule({6}, FailureAction::kReplaceMachine)};
  const FailureDecision decision = DecideFailure(policy, After(Exit(6)));
  EXPECT_EQ(decision.action, FailureAction::kFail);
  EXPECT_NE(decision.reason.find("rule 0"), std::string::npos) << decision.reason;
}

TEST(DecideFailure, AsksARuleAboutAMetricAboutNoDeath) {
  FailurePolicy policy;
  FailureRule rule = Rule({2}, FailureAction::kFail);
  rule.metric = "loss";
  policy.rules = {rule};
  EXPECT_EQ(DecideFailure(policy, After(Exit(1))).action, FailureAction::kRestart);
}

TEST(DecideFailure, ARuleAboutAMetricReportsUnlessItSaysMore) {
  FailureRule rule;
  EXPECT_EQ(ActionOf(rule), FailureAction::kRestart);
  rule.metric = "loss";
  EXPECT_EQ(ActionOf(rule), FailureAction::kReport);
}

TEST(MetricRules, AreTakenOutOfAPolicyAndPutBackInTheirPlaces) {
  FailurePolicy policy;
  FailureRule metric;
  metric.metric = "loss";
  metric.above = 10;
  metric.action = FailureAction::kRestartFromEarlier;
  policy.rules = {metric, Rule({2}, FailureAction::kFail), metric};
  policy.rules[2].above = 20;
  FailurePolicy split = policy;
  const std::vector<FailureRule> rules = SplitMetricRules(&split);
  ASSERT_EQ(split.rules.size(), 3U);
  EXPECT_TRUE(split.rules[0].metric.empty());
  EXPECT_EQ(split.rules[0].action, FailureAction::kRestart) << "which an older agent knows";
  EXPECT_EQ(DecideFailure(split, After(Exit(1))).action, FailureAction::kRestart);
  EXPECT_EQ(DecideFailure(split, After(Exit(2))).action, FailureAction::kFail);
  JoinMetricRules(&split, rules);
  EXPECT_EQ(split, policy);
}

TEST(FactorOf, IsANumberAboveOneBeforeAnX) {
  EXPECT_EQ(FactorOf("3x"), 3);
  EXPECT_EQ(FactorOf("1.5x"), 1.5);
  for (const char* text : {"", "3", "x", "1x", "0.5x", "-3x", "3 x", "3xx"}) {
    EXPECT_EQ(FactorOf(text), std::nullopt) << text;
  }
}

TEST(DecideFailure, MatchesARuleOnlyWhenAllItsListsDo) {
  FailurePolicy policy;
  FailureRule rule = Rule({9}, FailureAction::kFail);
  rule.stderr_regex = "bad (disk|memory)";
  policy.rules = {rule};
  Failure failure = Exit(9);
  EXPECT_EQ(DecideFailure(policy, After(failure)).action, FailureAction::kRestart);
  failure.stderr_tail = "line\nbad memory at 0x10\n";
  EXPECT_EQ(DecideFailure(policy, After(failure)).action, FailureAction::kFail);
}

TEST(DecideFailure, ReplacesAMachineByRuleFromTheMachinesBudget) {
  FailurePolicy policy;
  policy.max_restarts = 0;
  policy.max_machine_replacements = 1;
  FailureRule rule;
  rule.signals = {SIGBUS};
  rule.action = FailureAction::kReplaceMachine;
  policy.rules = {rule};
  FailureContext context = After(Signal(SIGBUS));
  EXPECT_EQ(DecideFailure(policy, context).action, FailureAction::kReplaceMachine);
  context.machine_failures_used = 2;
  EXPECT_EQ(DecideFailure(policy, context).action, FailureAction::kFail);
}

TEST(DecideFailure, MatchesNothingByARegexThatIsNone) {
  FailurePolicy policy;
  FailureRule rule;
  rule.stderr_regex = "(";
  rule.action = FailureAction::kFail;
  policy.rules = {rule};
  EXPECT_EQ(DecideFailure(policy, After(Exit(1))).action, FailureAction::kRestart);
}

TEST(DecideFailure, FailsAnEarlyCrashThatRepeatsItself) {
  const struct {
    const char* what;
    Failure previous;
    Failure now;
    bool first_step_seen;
    Duration lived;
    bool early_crash;
  } cases[] = {
      {"same rank, same code", Exit(1, 3), Exit(1, 3), false, seconds(5), true},
      {"same rank, same crash", Signal(SIGSEGV, 3), Signal(SIGSEGV, 3), false, seconds(5), true},
      {"abort", Signal(SIGABRT), Signal(SIGABRT), false, seconds(5), true},
      {"illegal instruction", Signal(SIGILL), Signal(SIGILL), false, seconds(5), true},
      {"another rank", Exit(1, 3), Exit(1, 4), false, seconds(5), false},
      {"another code", Exit(1, 3), Exit(3, 3), false, seconds(5), false},
      {"another signal", Signal(SIGSEGV), Signal(SIGBUS), false, seconds(5), false},
      {"a kill from outside", Signal(SIGKILL), Signal(SIGKILL), false, seconds(5), false},
      {"a stop from outside", Signal(SIGTERM), Signal(SIGTERM), false, seconds(5), false},
      {"a code, then a signal", Exit(1), Signal(SIGSEGV), false, seconds(5), false},
      {"after a first step", Exit(1), Exit(1), true, seconds(5), false},
      {"after a minute", Exit(1), Exit(1), false, seconds(60), false},
      {"just before a minute", Exit(1), Exit(1), false, seconds(60) - nanoseconds(1), true},
      {"a machine lost twice", Of(Cause::kMachineLost), Of(Cause::kMachineLost), false, seconds(5),
       false},
      {"a hang twice", Of(Cause::kHang), Of(Cause::kHang), false, seconds(5), false},
  };
  for (const auto& c : cases) {
    FailureContext context = After(c.now);
    context.previous = c.previous;
    context.first_step_seen = c.first_step_seen;
    context.lived = c.lived;
    const FailureDecision decision = DecideFailure({}, context);
    EXPECT_EQ(decision.cause == Cause::kEarlyCrash, c.early_crash) << c.what;
    EXPECT_EQ(decision.action == FailureAction::kFail, c.early_crash) << c.what;
    if (c.early_crash) EXPECT_EQ(decision.exit_code, 70) << c.what;
  }
}

TEST(DecideFailure, SaysByWhatItKnewThatACrashWasEarly) {
  FailureContext context = After(Exit(1, 3));
  context.previous = Exit(1, 3);
  EXPECT_EQ(
      DecideFailure({}, context).reason,
      "rank 3 ended twice in a row with exit code 1 within 60 s of the start; a restart would "
      "end the same way");
  context.reports = true;
  EXPECT_EQ(DecideFailure({}, context).reason,
            "rank 3 ended twice in a row with exit code 1 before a first reported step; a restart "
            "would end the same way");
}

TEST(DecideFailure, LetsAUsersRuleOverrideAnEarlyCrash) {
  FailurePolicy policy;
  policy.rules = {Rule({1}, FailureAction::kRestart)};
  FailureContext context = After(Exit(1));
  context.previous = Exit(1);
  EXPECT_EQ(DecideFailure(policy, context).action, FailureAction::kRestart);
}

TEST(DecideFailure, FailsWhenTheApplicationsBudgetIsSpent) {
  FailurePolicy policy;
  policy.max_restarts = 2;
  FailureContext context = After(Exit(1));
  context.first_step_seen = true;
  context.application_failures_used = 1;
  EXPECT_EQ(DecideFailure(policy, context).action, FailureAction::kRestart);
  context.application_failures_used = 2;
  const FailureDecision decision = DecideFailure(policy, context);
  EXPECT_EQ(decision.action, FailureAction::kFail);
  EXPECT_EQ(decision.cause, Cause::kRestartsExhausted);
  EXPECT_EQ(decision.exit_code, 70);
  EXPECT_EQ(decision.reason,
            "the processes failed 3 times and spec.failurePolicy.maxRestarts is 2");
}

TEST(DecideFailure, RestartsNeverWhenTheBudgetIsZero) {
  FailurePolicy policy;
  policy.max_restarts = 0;
  const FailureDecision decision = DecideFailure(policy, After(Exit(1)));
  EXPECT_EQ(decision.action, FailureAction::kFail);
  EXPECT_EQ(decision.reason, "the processes failed once and spec.failurePolicy.maxRestarts is 0");
}

TEST(DecideFailure, KeepsTheBudgetsApart) {
  FailurePolicy policy;
  policy.max_restarts = 0;
  policy.max_machine_replacements = 1;
  FailureContext lost = After(Of(Cause::kMachineLost));
  lost.machine_failures_used = 1;
  lost.application_failures_used = 9;
  EXPECT_EQ(DecideFailure(policy, lost).action, FailureAction::kRestart);
  lost.machine_failures_used = 2;
  const FailureDecision decision = DecideFailure(policy, lost);
  EXPECT_EQ(decision.cause, Cause::kRestartsExhausted);
  EXPECT_NE(decision.reason.find("maxMachineReplacements"), std::string::npos);
}

TEST(DecideFailure, ReplacesAMachineThatAProcessCallsBroken) {
  FailureContext context = After(Exit(76));
  EXPECT_EQ(DecideFailure({}, context).action, FailureAction::kReplaceMachine);
  // From the machines' budget, and as often as that lasts.
  context.previous = Exit(76);
  context.application_failures_used = 9;
  EXPECT_EQ(DecideFailure({}, context).action, FailureAction::kReplaceMachine);
}

TEST(DecideFailure, ReplacesAMachineWhoseProcessesWouldNotDie) {
  EXPECT_EQ(DecideFailure({}, After(Of(Cause::kUnkillable))).action,
            FailureAction::kReplaceMachine);
}

TEST(DecideFailure, ChargesNothingForARequestedStop) {
  FailurePolicy policy;
  policy.max_restarts = 0;
  policy.max_machine_replacements = 0;
  FailureContext context = After(Of(Cause::kStopRequested));
  context.failure.exit_code = 2;
  context.application_failures_used = 99;
  context.machine_failures_used = 99;
  const FailureDecision decision = DecideFailure(policy, context);
  EXPECT_EQ(decision.action, FailureAction::kRestart);
  EXPECT_EQ(decision.cause, Cause::kStopRequested);
}

TEST(DecideFailure, WaitsLongerAfterEachShortLife) {
  FailurePolicy policy;
  policy.max_restarts = 100;
  const struct {
    int short_lives;
    Duration lived;
    Duration backoff;
  } cases[] = {{0, seconds(1), seconds(0)},  {1, seconds(1), seconds(1)},
               {2, seconds(1), seconds(5)},  {3, seconds(1), seconds(30)},
               {4, seconds(1), seconds(30)}, {999, seconds(1), seconds(30)},
               {3, seconds(60), seconds(0)}, {-1, seconds(1), seconds(0)}};
  for (const auto& c : cases) {
    FailureContext context = After(Exit(1));
    context.short_lives = c.short_lives;
    context.lived = c.lived;
    EXPECT_EQ(DecideFailure(policy, context).backoff, c.backoff) << c.short_lives;
  }
}

TEST(DecideFailure, DoesNotLetSurvivorsWaitAfterAGenerationThatMadeAStep) {
  FailurePolicy policy;
  policy.max_restarts = 100;
  FailureContext context = After(Signal(SIGKILL));
  context.lived = seconds(1);
  context.short_lives = 3;
  context.lives_on = true;
  EXPECT_EQ(DecideFailure(policy, context).backoff, seconds(30)) << "it made no step";
  context.first_step_seen = true;
  EXPECT_EQ(DecideFailure(policy, context).backoff, seconds(0));
  EXPECT_FALSE(IsShortLife(context));
  context.lives_on = false;
  EXPECT_EQ(DecideFailure(policy, context).backoff, seconds(30));
  EXPECT_TRUE(IsShortLife(context));
}

TEST(DecideFailure, SaysByTheAgentsExitCodeWhatKindOfEndItWas) {
  FailurePolicy policy;
  policy.max_restarts = 0;
  policy.rules = {Rule({78}, FailureAction::kFail)};
  const struct {
    Failure failure;
    int exit_code;
  } cases[] = {{Exit(1), 70},
               {Signal(SIGKILL), 70},
               {Of(Cause::kOutOfMemory), 70},
               {Of(Cause::kHang), 77},
               {Of(Cause::kCommandNotFound), 78},
               {Of(Cause::kConfiguration), 78},
               {Exit(78), 78}};
  for (const auto& c : cases) {
    const FailureDecision decision = DecideFailure(policy, After(c.failure));
    EXPECT_EQ(decision.action, FailureAction::kFail);
    EXPECT_EQ(decision.exit_code, c.exit_code) << ToString(c.failure.cause);
  }
}

TEST(Cause, HasANameThatReadsBack) {
  for (int i = 0; i < kCauseCount; ++i) {
    const auto cause = static_cast<Cause>(i);
    EXPECT_STRNE(ToString(cause), "");
    EXPECT_EQ(ParseEnum<Cause>(ToString(cause)), cause);
  }
  EXPECT_EQ(ParseEnum<Cause>("Gremlins"), std::nullopt);
}

TEST(Cause, IsChargedToOneBudget) {
  EXPECT_EQ(ClassOf(Cause::kProcessExit), CauseClass::kApplication);
  EXPECT_EQ(ClassOf(Cause::kOutOfMemory), CauseClass::kApplication);
  EXPECT_EQ(ClassOf(Cause::kHang), CauseClass::kApplication);
  EXPECT_EQ(ClassOf(Cause::kMachineLost), CauseClass::kInfrastructure);
  EXPECT_EQ(ClassOf(Cause::kLeaseExpired), CauseClass::kInfrastructure);
  EXPECT_EQ(ClassOf(Cause::kUnkillable), CauseClass::kInfrastructure);
  EXPECT_EQ(ClassOf(Cause::kStopRequested), CauseClass::kStopped);
}

}  // namespace
}  // namespace lockstep::core
