#include "tests/operator/policy/scene.h"

namespace lockstep::control {
namespace {

using core::Cause;
using core::JobState;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST(Verdict, SuccessIsRecordedBeforeAnythingElse) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.machine(1).end = Verdict(0, {1, 1}, 1, 1);
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent && decision.intent->verdict);
  EXPECT_EQ(decision.intent->state, JobState::kSucceeded);
  EXPECT_EQ(decision.intent->verdict->exit_code, 0);
  EXPECT_EQ(decision.intent->verdict->generation, (core::Generation{1, 1}));
  EXPECT_TRUE(decision.intent->timings.finished);
  ASSERT_NE(core::FindCondition(decision.intent->conditions, "Complete"), nullptr);
  EXPECT_THAT(decision.actions, IsEmpty());
}

TEST(Verdict, ACheckpointThatCouldNotBeWrittenStandsInTheConditionOfASuccess) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  core::Termination told;
  told.reason =
      "every process of every machine exited with code 0; checkpoint step-7 in memory was not "
      "written to /ckpt: disk full";
  scene.machine(1).end = Verdict(0, {1, 1}, 1, 1, told);
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_EQ(decision.intent->state, JobState::kSucceeded);
  EXPECT_EQ(decision.intent->reason, told.reason);
  EXPECT_EQ(core::FindCondition(decision.intent->conditions, "Complete")->message, told.reason);
  ASSERT_THAT(decision.events, SizeIs(1));
  EXPECT_EQ(decision.events[0].note, told.reason);
}

TEST(Verdict, WhatTheGangWentThroughUnheardIsCounted) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  core::Termination told;
  told.counters = core::Counters{.generations = 3, .process_failures = 2};
  scene.machine(0).end = Verdict(0, {1, 3}, 0, 1, told);
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_EQ(decision.intent->restarts.application, 2);
}

TEST(Verdict, OfASuccessTellsTheFailureThatNobodyHeardOf) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  core::Termination told;
  told.failure.cause = Cause::kProcessSignal;
  told.failure.machine = 1;
  told.failure.message = "rank 3 was killed by signal 9";
  scene.machine(1).end = Verdict(0, {1, 2}, 1, 1, told);
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent && decision.intent->last_failure);
  EXPECT_EQ(decision.intent->state, JobState::kSucceeded);
  EXPECT_EQ(decision.intent->verdict->cause, Cause::kNone);
  EXPECT_EQ(decision.intent->last_failure->failure.message, told.failure.message);
  EXPECT_EQ(decision.intent->last_failure->generation, (core::Generation{1, 1}));
  EXPECT_EQ(decision.intent->last_failure->node, "node-1");
  EXPECT_THAT(decision.events, SizeIs(2));
}

TEST(Verdict, OfASuccessSaysNothingTwice) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  core::Termination told;
  told.failure.cause = Cause::kProcessSignal;
  told.failure.message = "rank 3 was killed by signal 9";
  told.failure.stderr_tail = std::string(1000, 'x');
  scene.Report(core::CoordinatorPhase::kRunning).last_failure = told.failure;
  scene.Settle();
  const auto before = scene.status().last_failure;
  told.failure.stderr_tail.resize(500);  // as a termination message may cut it
  scene.Pass(minutes(1));
  scene.machine(1).end = Verdict(0, {1, 2}, 1, 1, told);
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent && before);
  EXPECT_EQ(decision.intent->last_failure, before);
  EXPECT_THAT(decision.events, SizeIs(1));
}

TEST(Verdict, ItEndsTheJobWhateverNumbersItHolds) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.machine(0).end =
      Exited(70, R"({"verdict": true, "exitCode": 2147483647, "generation": "1-1",
      "machine": 0, "attempt": 1,
      "lastFailure": {"cause": "ProcessExit", "rank": -7, "signal": 2147483647},
      "counters": {"generations": 4294967295, "alone": 4294967295, "processFailures": 4294967295, "outOfMemory": 4294967295,
                   "replacements": 4294967295, "leasesExpired": 2147483648, "stops": 4294967295},
      "progress": {"step": -1, "totalSteps": 9223372036854775807}})");
  scene.Settle();
  const core::JobStatus& status = scene.status();
  ASSERT_EQ(status.state, core::JobState::kFailed);
  EXPECT_EQ(status.verdict->exit_code, 128 + 64);
  EXPECT_EQ(status.restarts.application, (1 << 29) - 1);
  EXPECT_EQ(status.restarts.total, (1 << 29) - 1);
  EXPECT_EQ(status.last_failure->failure.rank, -1);
  EXPECT_EQ(status.last_failure->failure.signal, 64);
  EXPECT_EQ(status.progress->step, 0);
}

TEST(Verdict, FailureNamesItsRootCause) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.machine(0).end = Verdict(70, {1, 2}, 0, 1);
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent && decision.intent->last_failure);
  EXPECT_EQ(decision.intent->state, JobState::kFailed);
  EXPECT_EQ(decision.intent->verdict->cause, Cause::kProcessExit);
  EXPECT_THAT(decision.intent->reason, HasSubstr("rank 1 exited with code 3"));
  ASSERT_THAT(decision.events, SizeIs(1));
  EXPECT_TRUE(decision.events[0].warning);
}

TEST(Verdict, AFailureThatEndsTheJobIsNoRestartAndStandsInTheHistory) {
  for (const bool heard : {false, true}) {  // of the failure, before the verdict came
    Scene scene(MakeJob("gpt").Machines(2));
    scene.Run();
    core::Termination told;
    told.counters = core::Counters{.generations = 1, .process_failures = 1};
    if (heard) {
      core::GangStatus& gang = scene.Report(core::CoordinatorPhase::kStopping);
      gang.counters = *told.counters;
      core::GangStatus::GenerationStatus ended;
      ended.generation = gang.generation = {1, 1};
      ended.ended = ended.died = seconds(2);
      ended.failure.cause = Cause::kProcessExit;
      ended.failure.machine = 1;
      gang.history.push_back(ended);
    }
    scene.machine(1).end = Verdict(70, {1, 1}, 1, 1, told);
    const Decision decision = scene.Decide();
    ASSERT_TRUE(decision.intent);
    EXPECT_EQ(decision.intent->restarts, core::RestartCounts{});
    ASSERT_THAT(decision.intent->history, SizeIs(1));
    const core::RestartRecord& last = decision.intent->history[0];
    EXPECT_EQ(last.generation, (core::Generation{1, 1}));
    EXPECT_EQ(last.cause, Cause::kProcessExit);
    EXPECT_EQ(last.machine, 1);
    EXPECT_TRUE(last.detected);
  }
}

TEST(Verdict, MachinesOfAJobThatEndedHaveEnded) {
  for (const bool success : {true, false}) {
    Scene scene(MakeJob("gpt").Machines(2));
    scene.Run();
    scene.machine(1).end = Verdict(success ? 0 : 70, {1, 1}, 1, 1);
    scene.Settle();
    const core::MachineState ended =
        success ? core::MachineState::kSucceeded : core::MachineState::kStopped;
    EXPECT_EQ(scene.status().ready, "0/2");
    EXPECT_EQ(scene.status().machines.ready, 0);
    EXPECT_EQ(scene.status().machines.by_state,
              (std::map<core::MachineState, int32_t>{{ended, 2}}));
    for (const core::MachineStatus& machine : scene.status().machine_statuses) {
      EXPECT_EQ(machine.state, ended);
    }
  }
}

TEST(Verdict, ItsExitCodeIsTheOneThatARunOnOneComputerHas) {
  const auto code = [](Cause cause, int of_rank, int signal, int agents) {
    Scene scene(MakeJob("gpt").Machines(2));
    scene.Run();
    core::Termination told;
    told.exit_code = agents;
    told.generation = {1, 1};
    told.attempt = 1;
    told.verdict = true;
    told.failure.cause = cause;
    told.failure.exit_code = of_rank;
    told.failure.signal = signal;
    scene.machine(0).end = Exited(agents, core::ToJson(told));
    scene.Settle();
    return scene.status().verdict->exit_code;
  };
  EXPECT_EQ(code(Cause::kProcessExit, 1, 0, 70), 1);
  EXPECT_EQ(code(Cause::kCommandNotFound, 127, 0, 78), 127);
  EXPECT_EQ(code(Cause::kProcessSignal, -1, 9, 70), 137);
  EXPECT_EQ(code(Cause::kHang, -1, 0, 77), 77);
  EXPECT_EQ(code(Cause::kMachineLost, -1, 0, 70), 75);
  EXPECT_EQ(code(Cause::kConfiguration, -1, 0, 78), 78);
}

TEST(Verdict, AnAgentThatLeavesWithASuccessAndNoMessageEndsTheJob) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.machine(0).end = Exited(0);
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_EQ(decision.intent->state, JobState::kSucceeded);
  EXPECT_THAT(decision.intent->reason, HasSubstr("left no message"));
}

TEST(Verdict, AnAgentThatLeavesWithAFailureAndNoMessageFailsTheJob) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.machine(1).end = Exited(70);
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_EQ(decision.intent->state, JobState::kFailed);
  EXPECT_EQ(decision.intent->verdict->exit_code, 70);
}

void TellVerdict(Scene& scene, uint32_t code) {
  core::GangStatus& status = scene.Report(core::CoordinatorPhase::kVerdict);
  status.verdict.emplace();
  status.verdict->generation = {1, 1};
  status.verdict->exit_code = code;
  status.verdict->failure.exit_code = code == 0 ? -1 : 3;
  status.verdict->reason = "told by status";
}

TEST(Verdict, ThatMachine0ToldEndsTheJobThoughItsAgentIsKilled) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  TellVerdict(scene, 70);
  scene.machine(0).end = Killed(9);
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_EQ(decision.intent->state, JobState::kFailed);
  EXPECT_EQ(decision.intent->verdict->exit_code, 3);
  EXPECT_THAT(decision.intent->reason, HasSubstr("told by status"));
}

TEST(Verdict, ThatMachine0ToldEndsTheJobThoughItsPodVanishes) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  TellVerdict(scene, 0);
  scene.RemoveMachine(0);
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_EQ(decision.intent->state, JobState::kSucceeded);
}

TEST(Verdict, AfterThatMachine0ToldNothingIsReplacedOrStopped) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  TellVerdict(scene, 0);
  scene.snapshot().coordinator->status.machines[1].silent_for = minutes(1);
  scene.spec().suspend = true;
  Decision decision = scene.Decide();
  EXPECT_FALSE(decision.intent);
  EXPECT_THAT(decision.actions, IsEmpty());
  scene.Pass(seconds(11));  // its node is out of reach, and no end is seen
  decision = scene.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_EQ(decision.intent->state, JobState::kSucceeded);
}

TEST(Verdict, ThatNamesACheckpointThatIsNotWrittenTellsOfItInAnEvent) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  core::Termination told;
  told.unwritten = "checkpoint step-7 in memory was not written to /ckpt: disk full";
  scene.machine(0).end = Verdict(0, {1, 1}, 0, 1, told);
  const Decision decision = scene.Decide();
  ASSERT_THAT(decision.events, SizeIs(2));
  EXPECT_EQ(decision.events[0].reason, "CheckpointNotWritten");
  EXPECT_EQ(decision.events[0].note, told.unwritten);
}

TEST(Verdict, OneOfAnAttemptThatWasReplacedDoesNotCount) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.machine(1).end = Killed(9);
  scene.Make(scene.Settle());
  for (MachineObservation& seen : scene.machines()) {
    if (seen.machine == 1 && seen.attempt == 1) seen.end = Verdict(0, {1, 1}, 1, 1);
  }
  EXPECT_FALSE(scene.Decide().intent);
}

TEST(Verdict, OneOfACoordinatorThatWasReplacedDoesNotCount) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.machine(0).end = Killed(9);
  scene.Make(scene.Settle());
  scene.machine(1).end = Verdict(0, {1, 1}, 1, 1);
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_FALSE(decision.intent->verdict);
  EXPECT_GT(decision.intent->attempts.Of(1), 1U) << "its agent has left";
}

TEST(Verdict, AnAgentThatCannotWorkWithItsConfigurationEndsTheJob) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.machine(1).end = Exited(78, "the key file is empty");
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent && decision.intent->verdict);
  EXPECT_EQ(decision.intent->verdict->cause, Cause::kConfiguration);
  EXPECT_THAT(decision.intent->reason, HasSubstr("the key file is empty"));
}

TEST(Verdict, ASpecThatCannotRunFailsOnceWithItsProblems) {
  Scene scene(MakeJob("gpt").Machines(2));
  core::Problem problem;
  problem.path = "spec.args";
  problem.message = "holds a NUL";
  scene.snapshot().problems = {problem};
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_EQ(decision.intent->state, JobState::kFailed);
  EXPECT_THAT(decision.intent->reason, HasSubstr("spec.args: holds a NUL"));
  scene.status() = *decision.intent;
  EXPECT_TRUE(WritesNothing(scene.Decide()));
}

TEST(Verdict, AJobThatBeganUnderOtherRulesIsNotEndedByNewOnes) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.snapshot().problems = {
      {.path = "metadata.name", .message = "must not end in -coordinator"}};
  scene.status().attempts = core::MachineAttempts();  // as after a suspension
  const Decision decision = scene.Decide();
  EXPECT_FALSE(decision.intent && decision.intent->verdict);
}

// Machine 1 is lost until the budget is over.
void SpendTheBudget(Scene& scene) {
  scene.spec().failure_policy.max_machine_replacements = 1;
  for (int i = 0; i < 2; ++i) {
    scene.Pass(minutes(2));
    scene.machine(1).end = Killed(9);
    scene.status() = *scene.Decide().intent;
    scene.AddMachine(1, scene.status().epoch);
  }
}

TEST(Verdict, ASpentMachineBudgetIsMachine0sToEndForTenSeconds) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  SpendTheBudget(scene);
  scene.Running();
  EXPECT_FALSE(scene.Decide().intent);
  scene.Pass(seconds(10));
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent && decision.intent->verdict);
  EXPECT_EQ(decision.intent->verdict->cause, Cause::kMachineLost);
  EXPECT_THAT(decision.intent->reason, HasSubstr("maxMachineReplacements"));
}

TEST(Verdict, NoMachineIsMadeForAJobWhoseMachineBudgetIsSpent) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.spec().failure_policy.max_machine_replacements = 0;
  scene.Run();
  scene.machine(1).end = Killed(9);
  scene.status() = *scene.Decide().intent;
  const Decision decision = scene.Decide();
  EXPECT_THAT(All<StartMachine>(decision), testing::IsEmpty());
  ASSERT_TRUE(decision.desired) << "machine 0 is to end the job";
  EXPECT_EQ(decision.desired->machine_failures.replacements, 1U);
}

TEST(Verdict, WithoutACoordinatorASpentMachineBudgetEndsTheJobAtOnce) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  SpendTheBudget(scene);
  scene.snapshot().coordinator.reset();
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_EQ(decision.intent->state, JobState::kFailed);
}

TEST(Verdict, ABudgetThatWasRaisedInTimeHasAllItsPatienceAgain) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  SpendTheBudget(scene);
  scene.Running();
  scene.Decide();
  scene.spec().failure_policy.max_machine_replacements = 5;
  scene.Pass(minutes(5));
  scene.Decide();
  scene.spec().failure_policy.max_machine_replacements = 1;
  scene.Running();
  EXPECT_FALSE(scene.Decide().intent);
}

TEST(Verdict, AfterItNothingIsMadeWhateverHappens) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.machine(0).end = Verdict(0, {1, 1}, 0, 1);
  scene.Settle();
  scene.RemoveMachines();
  scene.spec().num_machines = 4;
  scene.spec().suspend = true;
  EXPECT_TRUE(WritesNothing(scene.Decide()));
}

}  // namespace
}  // namespace lockstep::control
