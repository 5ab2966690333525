#include "core/gang/status/status_api.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace lockstep::core {
namespace {

GangStatus SomeStatus() {
  GangStatus status;
  status.version = 12;
  status.job_uid = "5a1c";
  status.coordinator = true;
  status.attempt = 2;
  status.machine0_attempt = 2;
  status.phase = CoordinatorPhase::kRunning;
  status.generation = {2, 5};
  status.counters.process_failures = 3;
  status.machines.push_back(
      {1, 4, GangMachineState::kLost, milliseconds(1500), true, true, Binding::kPartial, "cpuset"});
  status.machines[0].slow = "link 0.1 GB/s";
  status.preflight = {PreflightState::kWaiting, "link 5 GB/s", {{1, 4, "link 0.1 GB/s", true}}};
  status.progress.push_back({3, 10, 100, std::numeric_limits<double>::quiet_NaN(), 4096});
  status.progress.back().figures = {{"accuracy", 0.875}, {"a \"quoted\" name", -1e-9}};
  status.machines.front().usage = Usage{.cpu_millicores = 1500, .sent = 0};
  GangStatus::GenerationStatus generation;
  generation.generation = {2, 4};
  generation.announced = seconds(1);
  generation.spawned = milliseconds(1006);
  generation.stop_reason = StopReason::kFailure;
  generation.failure.cause = Cause::kProcessSignal;
  generation.failure.machine = 1;
  generation.failure.rank = 3;
  generation.failure.signal = 9;
  generation.failure.message = "rank 3 on machine 1 was killed by SIGKILL";
  status.history.push_back(generation);
  status.last_failure = generation.failure;
  status.code = SyncedCode{.digest = "5eed",
                           .files = 3,
                           .by = "alice",
                           .since = seconds(4),
                           .generation = {2, 4},
                           .next = "f00d",
                           .next_by = "bob",
                           .missing = "1, 2",
                           .dropped = "beef",
                           .problem = "the disk is full",
                           .lost = true,
                           .broken = true};
  Verdict verdict;
  verdict.generation = {2, 5};
  verdict.exit_code = 70;
  verdict.failure = generation.failure;
  status.verdict = verdict;
  return status;
}

TEST(GangStatusTest, ReadsBackAsItWasWritten) {
  std::string json = ToJson(SomeStatus());
  Result<GangStatus> read = ParseGangStatus(json);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(ToJson(*read), json);
  EXPECT_EQ(read->history.at(0).failure, SomeStatus().last_failure);
  EXPECT_FALSE(read->history.at(0).first_step.has_value());
  EXPECT_TRUE(std::isnan(read->progress.at(0).loss));
  EXPECT_EQ(read->progress.at(0).figures, SomeStatus().progress.at(0).figures);
  EXPECT_EQ(read->machines.at(0).usage, SomeStatus().machines.at(0).usage);
  EXPECT_EQ(read->machines.at(0).silent_for, milliseconds(1500));
  EXPECT_EQ(read->machines.at(0).slow, "link 0.1 GB/s");
  EXPECT_EQ(read->preflight, SomeStatus().preflight);
  ASSERT_TRUE(read->code);
  EXPECT_EQ(read->code->since, seconds(4));
  EXPECT_EQ(read->code->generation, (Generation{2, 4}));
  EXPECT_TRUE(read->code->lost && read->code->broken);
}

TEST(GangStatusTest, BytesThatAreNoUtf8AreReplacedNotThrown) {
  GangStatus status = SomeStatus();
  status.last_failure.stderr_tail = "\xff\xfe broken";
  EXPECT_TRUE(ParseGangStatus(ToJson(status)).ok());
}

TEST(GangStatusTest, FourThousandMachinesFitTheLimit) {
  GangStatus status = SomeStatus();
  for (uint32_t i = 0; i < Members::kMost - 1; ++i) {
    status.machines.push_back({i, 4000000000U, GangMachineState::kStopping, nanoseconds(1234567891),
                               true, true, Binding::kPartial, ""});
  }
  for (uint32_t i = 0; i < 511; ++i) {
    status.progress.push_back({i, 1234567890, 1234567890, 2.123456789012345, 123456.789012345});
  }
  for (size_t i = 0; i < kMaxMachinesWithUsage; ++i) {
    status.machines[i].usage = Usage{1LL << 50, 1LL << 50, 1LL << 50, 1LL << 50};
  }
  for (size_t i = 0; i < kMaxRanksWithFigures; ++i) {
    status.progress[i].figures.assign(kMaxNamedFigures,
                                      {std::string(kMaxFigureName, '"'), 123456.789012345});
  }
  std::string json = ToJson(status);
  EXPECT_LE(json.size(), kMaxStatusBody);
  EXPECT_TRUE(ParseGangStatus(json).ok());
}

TEST(DesiredStateTest, FourThousandMachinesFitTheLimit) {
  DesiredState desired;
  desired.job_uid = "7d1f6a52-7c58-4d0a-9a55-0a8e8fdb4b0f";
  for (uint32_t i = 0; i < Members::kMost; ++i) {
    desired.fenced.push_back({i, 4000000000U});
    desired.terminated.push_back({i, 4000000000U, Cause::kMachineLost});
  }
  const std::string json = ToJson(desired);
  EXPECT_LE(json.size(), kMaxGangBody);
  const Result<DesiredState> read = ParseDesiredState(json);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->fenced.size(), Members::kMost);
}

TEST(GangStatusTest, WhatCannotBeReadNamesTheField) {
  struct Case {
    const char* json;
    const char* says;
  };
  for (const Case& c : {
           Case{"", "not JSON"},
           Case{"[]", "must be an object"},
           Case{"{\"version\": -1}", "version: must lie between 0 and"},
           Case{"{\"version\": 1.5}", "version: must be a whole number"},
           Case{"{\"machines\": {}}", "machines: must be a list"},
           Case{"{\"machines\": [3]}", "machines[0]: must be an object (found the number 3)"},
           Case{"{\"generation\": \"x\"}", "generation: must be a generation"},
           Case{"{\"lastFailure\": {\"cause\": \"Nonsense\"}}",
                "lastFailure.cause: must be None, "},
           Case{"{\"history\": [{\"announced\": \"soon\"}]}",
                "history[0].announced: must be a finite number"},
           Case{"{\"history\": [{\"announced\": 1e300}]}", "announced: is out of range"},
       }) {
    Result<GangStatus> read = ParseGangStatus(c.json);
    ASSERT_FALSE(read.ok()) << c.json;
    EXPECT_NE(read.error().message.find(c.says), std::string::npos) << read.error().message;
  }
  EXPECT_EQ(ParseGangStatus(std::string(kMaxStatusBody + 1, ' ')).error().kind,
            ErrorKind::kTooLarge);
  EXPECT_FALSE(ParseGangStatus(std::string(100000, '[')).ok());
}

TEST(GangStatusTest, OfAnOlderAgentIsRead) {
  Result<GangStatus> read = ParseGangStatus(
      R"({"coordinator":true,"phase":"Running","startsAgain":null,"machines":[{"index":1}],)"
      R"("history":[{"generation":"2-4","announced":1.5,"ended":null,"stopReason":""}]})");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->history.at(0).announced, milliseconds(1500));
  EXPECT_EQ(read->history.at(0).stop_reason, std::nullopt);
  EXPECT_EQ(read->machines.at(0).binding, Binding::kUnknown);
}

TEST(GangStatusTest, APhaseIsOfWhoeverAnswers) {
  EXPECT_EQ(ParseGangStatus(R"({"phase":"Running","coordinator":true})")->phase,
            GangPhase(CoordinatorPhase::kRunning));
  EXPECT_EQ(ParseGangStatus(R"({"phase":"Running"})")->phase, GangPhase(MemberPhase::kRunning));
}

TEST(DesiredStateTest, IsWrittenAsAgentsOfAnyVersionReadIt) {
  DesiredState desired;
  desired.job_uid = "5a1c";
  desired.epoch = 3;
  desired.policy.emplace();
  desired.policy->rules.push_back({{}, {7}, "", FailureAction::kReplaceMachine});
  EXPECT_EQ(
      ToJson(desired),
      R"({"jobUID":"5a1c","epoch":3,"observedGeneration":0,"failurePolicy":{"maxRestarts":3,)"
      R"("maxMachineReplacements":10,"resetAfter":"1h","restartGracePeriod":"0s",)"
      R"("machineLostAfter":"15s","stragglers":"Report","nodeHealth":"AtCheckpoint",)"
      R"("rules":[{"exitCodes":[],"signals":[7],)"
      R"("stderr":"","metric":"","risesBy":"","within":100,"for":1,"skipSteps":0,"atMost":3,)"
      R"("action":"ReplaceMachine"}]},"machineFailures":{"generations":0,"processFailures":0,)"
      R"("processFailuresBase":0,"outOfMemory":0,"outOfMemoryBase":0,"replacements":0,)"
      R"("replacementsBase":0,"leasesExpired":0,"stops":0,"alone":0},"stop":null,"terminated":[],)"
      R"("fenced":[]})");
}

TEST(DesiredStateTest, ReadsBackAsItWasWritten) {
  DesiredState desired;
  desired.job_uid = "5a1c";
  desired.epoch = 3;
  desired.observed_generation = 7;
  desired.policy.emplace();
  desired.policy->machine_lost_after = seconds(30);
  desired.policy->rules.push_back({{78}, {7}, "ECC", FailureAction::kReplaceMachine});
  desired.health = DesiredState::Health{minutes(5), true};
  desired.machine_failures.replacements = 2;
  desired.stop = DesiredState::DesiredStop{StopReason::kDeadline, seconds(90)};
  desired.terminated.push_back({1, 4, Cause::kOutOfMemory});
  desired.fenced.push_back({1, 5});
  Result<DesiredState> read = ParseDesiredState(ToJson(desired));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(ToJson(*read), ToJson(desired));
  EXPECT_EQ(*read->policy, *desired.policy);
  EXPECT_EQ(read->stop->grace, seconds(90));
  EXPECT_EQ(read->terminated.at(0).cause, Cause::kOutOfMemory);
}

TEST(DesiredStateTest, WhatCannotBeReadIsRefused) {
  EXPECT_FALSE(ParseDesiredState("{}").ok());
  EXPECT_FALSE(ParseDesiredState(R"({"jobUID": 3, "epoch": 1})").ok());
  EXPECT_FALSE(ParseDesiredState(R"({"jobUID": "x"})").ok());
  EXPECT_FALSE(ParseDesiredState(R"({"jobUID": "x", "epoch": 1, "stop": {}})").ok());
  EXPECT_FALSE(ParseDesiredState(
                   R"({"jobUID": "x", "epoch": 1, "failurePolicy": {"machineLostAfter": "1s"}})")
                   .ok());
}

TEST(TerminationTest, ReadsBackAsItWasWritten) {
  Termination t;
  t.exit_code = 70;
  t.generation = {1, 2};
  t.machine = 1;
  t.attempt = 3;
  t.verdict = true;
  t.failure = SomeStatus().last_failure;
  t.counters = Counters{};
  t.counters->process_failures = 3;
  t.progress = GangProgress{.step = 59,
                            .total_steps = 60,
                            .loss = 0.25,
                            .tokens_per_second = 7,
                            .known = {.teraflops = 0.5, .mfu = 0.25, .scaling = 0.875},
                            .figures = {{"accuracy", 0.875}}};
  t.ended = SomeStatus().history;
  Result<Termination> read = ParseTermination(ToJson(t));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(ToJson(*read), ToJson(t));
  EXPECT_EQ(read->ended, t.ended);
}

TEST(TerminationTest, LeavesOutTheOldestGenerationsThatHaveNoRoom) {
  Termination t;
  t.failure = SomeStatus().last_failure;
  t.failure.stderr_tail = std::string(1024, 'x');
  for (uint32_t n = 1; n <= kMaxEnded; ++n) {
    t.ended.push_back(SomeStatus().history.front());
    t.ended.back().generation.n = n;
  }
  const std::string json = ToJson(t);
  EXPECT_LE(json.size(), kMaxTerminationMessage);
  Result<Termination> read = ParseTermination(json);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_GE(read->ended.size(), 5U);
  EXPECT_EQ(read->ended.back().generation.n, kMaxEnded);
  EXPECT_GE(read->failure.stderr_tail.size(), 200U);
}

// One number beyond what the CRD takes, and the API server refuses every status that holds it.
TEST(StatusApi, NumbersThatNoHonestAgentTellsAreHeldToTheBoundsOfAStatus) {
  const Result<GangStatus> read = ParseGangStatus(R"({"phase": "Running", "coordinator": true,
      "counters": {"processFailures": 4294967295, "stops": 4294967295, "generations": 7},
      "lastFailure": {"cause": "ProcessExit", "machine": -9, "rank": -2147483648,
                      "exitCode": 2147483647, "signal": -3},
      "progress": [{"rank": 0, "step": -5, "totalSteps": 9223372036854775807}],
      "machines": [{"usage": {"memoryBytes": -77, "sentBytesPerSecond": 9223372036854775807}}],
      "verdict": {"exitCode": 4294967295, "failure": {"exitCode": -77}}})");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->counters.process_failures, uint32_t{1} << 28);
  EXPECT_EQ(read->counters.stops, uint32_t{1} << 28);
  EXPECT_EQ(read->counters.generations, 7U);
  EXPECT_EQ(read->last_failure.machine, -1);
  EXPECT_EQ(read->last_failure.rank, -1);
  EXPECT_EQ(read->last_failure.exit_code, 255);
  EXPECT_EQ(read->last_failure.signal, 0);
  EXPECT_EQ(read->progress.front().step, 0);
  EXPECT_EQ(read->progress.front().total_steps, int64_t{1} << 53);
  EXPECT_EQ(read->machines.front().usage->memory, -1);
  EXPECT_EQ(read->machines.front().usage->sent, int64_t{1} << 53);
  EXPECT_EQ(read->verdict->exit_code, 255);
  EXPECT_EQ(read->verdict->failure.exit_code, -1);
}

TEST(TerminationTest, StaysWithinItsLimitWhateverStderrHeld) {
  Termination t;
  t.failure.cause = Cause::kProcessExit;
  t.failure.message = std::string(1024, '\x01');
  t.failure.stderr_tail = std::string(1024, '\x01');  // six bytes each in JSON
  t.reason = std::string(5000, '"');
  std::string json = ToJson(t);
  EXPECT_LE(json.size(), kMaxTerminationMessage);
  Result<Termination> read = ParseTermination(json);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->failure.cause, Cause::kProcessExit);
}

TEST(VerdictCountsTest, OnlyFromTheCurrentAttemptUnderTheHighestMachineZero) {
  Termination t;
  t.verdict = true;
  t.attempt = 3;
  t.generation = {2, 5};
  EXPECT_TRUE(VerdictCounts(t, 3, 2));
  EXPECT_FALSE(VerdictCounts(t, 4, 2));
  EXPECT_FALSE(VerdictCounts(t, 3, 3));
  t.verdict = false;
  EXPECT_FALSE(VerdictCounts(t, 3, 2));
}

}  // namespace
}  // namespace lockstep::core
