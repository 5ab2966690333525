#include "cli/run/decide.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/exit_codes.h"

namespace lockstep::cli {
namespace {

using core::Cause;
using core::CoordinatorPhase;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr Time kStart = hours(1);

// A run of `machines` agents, all of which run their first attempt.
class SnapshotBuilder {
 public:
  explicit SnapshotBuilder(uint32_t machines) {
    snapshot_.job_uid = "uid";
    snapshot_.grace = seconds(30);
    snapshot_.started = kStart;
    snapshot_.epoch = 1;
    snapshot_.machines.resize(machines);
    for (Machine& machine : snapshot_.machines) {
      machine.attempt = 1;
      machine.starts = 1;
      machine.started = kStart;
      machine.running = true;
    }
  }
  SnapshotBuilder& Phase(CoordinatorPhase phase) {
    core::GangStatus status;
    status.attempt = snapshot_.machines[0].attempt;
    status.coordinator = true;
    status.phase = phase;
    for (uint32_t i = 0; i < snapshot_.machines.size(); ++i) {
      core::GangStatus::MachineStatus machine;
      machine.index = i;
      machine.attempt = snapshot_.machines[i].attempt;
      machine.state = core::GangMachineState::kRunning;
      machine.connected = true;
      status.machines.push_back(machine);
    }
    snapshot_.coordinator = status;
    return *this;
  }
  SnapshotBuilder& Exit(uint32_t machine, int code, Time at) {
    snapshot_.machines[machine].running = false;
    snapshot_.machines[machine].exit = AgentExit{code, 0, at, std::nullopt, ""};
    return *this;
  }
  SnapshotBuilder& Verdict(uint32_t machine, int code, core::Failure failure = {}) {
    Exit(machine, code, kStart + seconds(1));
    core::Termination message;
    message.exit_code = code;
    message.generation = {1, 1};
    message.machine = machine;
    message.attempt = 1;
    message.verdict = true;
    message.failure = std::move(failure);
    snapshot_.machines[machine].exit->message = message;
    return *this;
  }
  Snapshot* operator->() { return &snapshot_; }
  operator const Snapshot&() const { return snapshot_; }  // NOLINT(google-explicit-constructor)

 private:
  Snapshot snapshot_;
};

std::vector<uint32_t> Killed(const Decision& decision) {
  std::vector<uint32_t> machines;
  for (const Decision::Kill& kill : decision.kill) machines.push_back(kill.machine);
  return machines;
}

TEST(DecideTest, EveryMachineIsStartedAtOnceInTheBeginning) {
  Snapshot snapshot;
  snapshot.machines.resize(3);
  Decision decision = Decide(snapshot, kStart);
  EXPECT_THAT(decision.start, ElementsAre(0, 1, 2));
  EXPECT_FALSE(decision.wish);
  EXPECT_FALSE(decision.outcome);
}

TEST(DecideTest, AHealthyGangIsLeftAlone) {
  Decision decision = Decide(SnapshotBuilder(2).Phase(CoordinatorPhase::kRunning), kStart);
  EXPECT_THAT(decision.start, IsEmpty());
  EXPECT_THAT(decision.kill, IsEmpty());
  EXPECT_THAT(decision.terminate, IsEmpty());
  EXPECT_FALSE(decision.wish);
  EXPECT_EQ(decision.wake, kNever);
}

TEST(DecideTest, AnAgentThatEndedIsStartedAgainAndMachine0IsTold) {
  SnapshotBuilder snapshot(2);
  snapshot.Phase(CoordinatorPhase::kRunning).Exit(1, 75, kStart + seconds(5));
  snapshot->counters.replacements = 1;
  snapshot->ended = {{1, 1, Cause::kMachineLost}};
  Decision decision = Decide(snapshot, kStart + seconds(5));
  EXPECT_THAT(decision.start, ElementsAre(1));
  ASSERT_TRUE(decision.wish);
  EXPECT_EQ(decision.wish->terminated.size(), 1u);
  EXPECT_EQ(decision.wish->machine_failures.replacements, 1u);
  EXPECT_FALSE(decision.wish->stop);
}

TEST(DecideTest, Machine0IsStartedAgainLikeAnyOther) {
  SnapshotBuilder snapshot(2);
  snapshot.Exit(0, 75, kStart + seconds(5));
  EXPECT_THAT(Decide(snapshot, kStart + seconds(5)).start, ElementsAre(0));
}

TEST(DecideTest, ASecondQuickExitWaitsASecond) {
  SnapshotBuilder snapshot(1);
  Time end = kStart + milliseconds(100);
  snapshot.Exit(0, 75, end);
  snapshot->machines[0].starts = 2;
  Decision decision = Decide(snapshot, end);
  EXPECT_THAT(decision.start, IsEmpty());
  EXPECT_EQ(decision.wake, end + seconds(1));
  EXPECT_THAT(Decide(snapshot, end + seconds(1)).start, ElementsAre(0));
}

TEST(DecideTest, AVerdictEndsTheJobOnceEveryAgentIsGone) {
  SnapshotBuilder snapshot(2);
  snapshot.Verdict(1, 0);
  Decision waiting = Decide(snapshot, kStart + seconds(1));
  EXPECT_FALSE(waiting.outcome);
  EXPECT_THAT(waiting.start, IsEmpty());
  EXPECT_EQ(waiting.wake, kStart + seconds(11));
  EXPECT_THAT(Killed(Decide(snapshot, kStart + seconds(11))), ElementsAre(0));
  snapshot.Verdict(0, 0);
  Decision decision = Decide(snapshot, kStart + seconds(2));
  ASSERT_TRUE(decision.outcome);
  EXPECT_EQ(decision.outcome->state, JobState::kSucceeded);
  EXPECT_EQ(decision.outcome->exit_code, 0);
}

TEST(DecideTest, AVerdictOfAnEarlierCoordinatorDoesNotCount) {
  SnapshotBuilder snapshot(2);
  snapshot->machines[0].attempt = 2;
  snapshot.Verdict(1, 0);
  EXPECT_THAT(Decide(snapshot, kStart + seconds(1)).start, ElementsAre(1));
}

TEST(DecideTest, AFailedJobExitsWithItsProcessesOwnCode) {
  core::Failure failure;
  failure.cause = Cause::kProcessExit;
  failure.exit_code = 3;
  Decision decision = Decide(SnapshotBuilder(1).Verdict(0, 70, failure), kStart + seconds(2));
  ASSERT_TRUE(decision.outcome);
  EXPECT_EQ(decision.outcome->state, JobState::kFailed);
  EXPECT_EQ(decision.outcome->exit_code, 3);
}

TEST(DecideTest, ExitCodesFollowTheRootCause) {
  core::Termination message;
  message.exit_code = 70;
  message.failure.cause = Cause::kProcessSignal;
  message.failure.signal = 9;
  EXPECT_EQ(ExitCodeOf(message), 137);
  message.failure = {};
  message.failure.cause = Cause::kMachineLost;
  EXPECT_EQ(ExitCodeOf(message), core::kExitMachines);
  message.failure.cause = Cause::kHang;
  message.exit_code = 77;
  EXPECT_EQ(ExitCodeOf(message), core::kExitHang);
  message.exit_code = 0;
  EXPECT_EQ(ExitCodeOf(message), 0);
}

TEST(DecideTest, AStopIsSaidToMachine0First) {
  SnapshotBuilder snapshot(2);
  snapshot.Phase(CoordinatorPhase::kRunning);
  snapshot->stop = StopWish{core::StopReason::kSuspended, 130, kStart};
  Decision decision = Decide(snapshot, kStart);
  ASSERT_TRUE(decision.wish && decision.wish->stop);
  EXPECT_EQ(decision.wish->stop->reason, core::StopReason::kSuspended);
  EXPECT_EQ(decision.wish->stop->grace, seconds(30));
  EXPECT_THAT(decision.terminate, IsEmpty());
}

TEST(DecideTest, AgentsLeaveWhenTheGangIsHeld) {
  SnapshotBuilder snapshot(2);
  snapshot.Phase(CoordinatorPhase::kHeld);
  snapshot->stop = StopWish{core::StopReason::kSuspended, 130, kStart};
  snapshot->wish_accepted = true;
  EXPECT_THAT(Decide(snapshot, kStart + seconds(1)).terminate, ElementsAre(0, 1));
}

TEST(DecideTest, WhileProcessesSaveNobodyIsSignalled) {
  SnapshotBuilder snapshot(2);
  snapshot.Phase(CoordinatorPhase::kStopping);
  snapshot->stop = StopWish{core::StopReason::kSuspended, 130, kStart};
  snapshot->wish_accepted = true;
  Decision decision = Decide(snapshot, kStart + seconds(20));
  EXPECT_THAT(decision.terminate, IsEmpty());
  EXPECT_THAT(decision.kill, IsEmpty());
  EXPECT_EQ(decision.wake, kStart + seconds(45));
}

TEST(DecideTest, AgentsAreToldThemselvesWhenMachine0DoesNotTakeTheStop) {
  SnapshotBuilder snapshot(2);
  snapshot->stop = StopWish{core::StopReason::kSuspended, 130, kStart};
  EXPECT_THAT(Decide(snapshot, kStart + seconds(1)).terminate, IsEmpty());
  EXPECT_THAT(Decide(snapshot, kStart + seconds(2)).terminate, ElementsAre(0, 1));
}

TEST(DecideTest, WhoOutlivesTheGracePeriodIsKilled) {
  SnapshotBuilder snapshot(2);
  snapshot->stop = StopWish{core::StopReason::kSuspended, 130, kStart};
  EXPECT_THAT(Killed(Decide(snapshot, kStart + seconds(45))), ElementsAre(0, 1));
}

TEST(DecideTest, AskedTwiceAllAreKilledAtOnce) {
  SnapshotBuilder snapshot(2);
  snapshot->stop = StopWish{core::StopReason::kSuspended, 130, kStart};
  snapshot->kill = true;
  EXPECT_THAT(Killed(Decide(snapshot, kStart)), ElementsAre(0, 1));
}

TEST(DecideTest, AStoppedJobIsSuspendedAndStartsNothing) {
  SnapshotBuilder snapshot(1);
  snapshot.Exit(0, 143, kStart + seconds(1));
  snapshot->stop = StopWish{core::StopReason::kSuspended, 130, kStart};
  Decision decision = Decide(snapshot, kStart + seconds(1));
  EXPECT_THAT(decision.start, IsEmpty());
  ASSERT_TRUE(decision.outcome);
  EXPECT_EQ(decision.outcome->state, JobState::kSuspended);
  EXPECT_EQ(decision.outcome->exit_code, 130);
}

TEST(DecideTest, TheActiveDeadlineFailsTheJob) {
  SnapshotBuilder snapshot(1);
  snapshot->active_deadline = minutes(1);
  EXPECT_EQ(Decide(snapshot, kStart).wake, kStart + minutes(1));
  Decision stopping = Decide(snapshot, kStart + minutes(1));
  ASSERT_TRUE(stopping.wish && stopping.wish->stop);
  EXPECT_EQ(stopping.wish->stop->reason, core::StopReason::kDeadline);
  snapshot.Exit(0, 143, kStart + minutes(1));
  Decision over = Decide(snapshot, kStart + minutes(1));
  ASSERT_TRUE(over.outcome);
  EXPECT_EQ(over.outcome->state, JobState::kFailed);
  EXPECT_EQ(over.outcome->exit_code, core::kExitDeadline);
}

TEST(DecideTest, AMachineThatTheCoordinatorLostIsKilledToBeReplaced) {
  SnapshotBuilder snapshot(3);
  snapshot.Phase(CoordinatorPhase::kGathering);
  snapshot->coordinator->machines[2].silent_for = snapshot->policy.machine_lost_after;
  EXPECT_THAT(Killed(Decide(snapshot, kStart)), ElementsAre(2));
  snapshot->machines[2].killed = true;
  EXPECT_THAT(Killed(Decide(snapshot, kStart)), IsEmpty());
}

TEST(DecideTest, AWordAboutAnotherAttemptIsNoEvidence) {
  SnapshotBuilder snapshot(2);
  snapshot.Phase(CoordinatorPhase::kGathering);
  snapshot->coordinator->machines[1].state = core::GangMachineState::kLost;
  snapshot->machines[1].attempt = 2;
  EXPECT_THAT(Killed(Decide(snapshot, kStart)), IsEmpty());
}

TEST(DecideTest, AMachineThatARuleReplacesIsKilled) {
  SnapshotBuilder snapshot(2);
  snapshot.Phase(CoordinatorPhase::kGathering);
  snapshot->coordinator->machines[0].replace = true;  // of itself no coordinator is the judge
  snapshot->coordinator->machines[1].replace = true;
  EXPECT_THAT(Killed(Decide(snapshot, kStart)), ElementsAre(1));
}

TEST(DecideTest, ASilentMachine0IsKilledOnAMembersWord) {
  SnapshotBuilder snapshot(2);
  core::GangStatus member;
  member.machine = 1;
  member.machines.resize(2);
  member.machines[0].attempt = 1;
  member.machines[0].silent_for = seconds(16);
  member.machines[1].index = 1;
  snapshot->member = member;
  EXPECT_THAT(Killed(Decide(snapshot, kStart)), ElementsAre(0));
}

TEST(DecideTest, AMemberThatHasYetToHearOfMachine0IsNoWitness) {
  SnapshotBuilder snapshot(2);
  core::GangStatus member;
  member.machine = 1;
  member.machines.resize(2);
  member.machines[0].attempt = 1;
  member.machines[0].state = core::GangMachineState::kLost;
  member.machines[1].index = 1;
  snapshot->member = member;
  EXPECT_THAT(Killed(Decide(snapshot, kStart)), IsEmpty());
}

TEST(DecideTest, ASpentBudgetIsLeftToMachine0AndThenEndsTheJob) {
  SnapshotBuilder snapshot(2);
  snapshot.Phase(CoordinatorPhase::kGathering).Exit(1, 75, kStart);
  snapshot->policy.max_machine_replacements = 0;
  snapshot->counters.replacements = 1;
  snapshot->last_replacement = kStart;
  Decision told = Decide(snapshot, kStart);
  EXPECT_TRUE(told.wish);
  EXPECT_THAT(told.start, IsEmpty());
  EXPECT_THAT(Decide(snapshot, kStart + seconds(10)).terminate, ElementsAre(0));
  snapshot.Exit(0, 143, kStart + seconds(10));
  Decision over = Decide(snapshot, kStart + seconds(11));
  ASSERT_TRUE(over.outcome);
  EXPECT_EQ(over.outcome->exit_code, core::kExitMachines);
  EXPECT_THAT(over.outcome->reason, HasSubstr("maxMachineReplacements is 0"));
}

TEST(DecideTest, AnAgentThatRefusesItsConfigurationFailsTheJob) {
  SnapshotBuilder snapshot(2);
  snapshot.Exit(1, 78, kStart);
  snapshot->machines[1].exit->last_words = "no such folder";
  EXPECT_THAT(Decide(snapshot, kStart).terminate, ElementsAre(0));
  snapshot.Exit(0, 143, kStart);
  Decision over = Decide(snapshot, kStart);
  ASSERT_TRUE(over.outcome);
  EXPECT_EQ(over.outcome->exit_code, core::kExitConfiguration);
  EXPECT_THAT(over.outcome->reason, HasSubstr("no such folder"));
}

TEST(DecideTest, TheBudgetIsWholeAgainAfterResetAfterOfHealth) {
  SnapshotBuilder snapshot(2);
  snapshot.Phase(CoordinatorPhase::kRunning);
  snapshot->counters.replacements = 2;
  snapshot->last_replacement = kStart;
  Decision early = Decide(snapshot, kStart + minutes(59));
  EXPECT_FALSE(early.reset_replacements);
  EXPECT_EQ(early.wake, kStart + hours(1));
  EXPECT_TRUE(Decide(snapshot, kStart + hours(1)).reset_replacements);
}

TEST(DecideTest, OnlyEndsThatNobodyAskedForAreMachineFailures) {
  SnapshotBuilder snapshot(1);
  snapshot.Exit(0, 75, kStart);
  EXPECT_TRUE(IsMachineFailure(snapshot->machines[0], 1));
  snapshot.Exit(0, 143, kStart);
  EXPECT_FALSE(IsMachineFailure(snapshot->machines[0], 1));
  snapshot.Exit(0, -1, kStart);
  EXPECT_TRUE(IsMachineFailure(snapshot->machines[0], 1));
  snapshot->machines[0].terminated = true;
  EXPECT_FALSE(IsMachineFailure(snapshot->machines[0], 1));
  SnapshotBuilder verdict(1);
  verdict.Verdict(0, 70);
  EXPECT_FALSE(IsMachineFailure(verdict->machines[0], 1));
}

TEST(DecideTest, TheSameSnapshotGivesTheSameDecision) {
  SnapshotBuilder snapshot(2);
  snapshot.Phase(CoordinatorPhase::kRunning);
  snapshot->stop = StopWish{core::StopReason::kSuspended, 130, kStart};
  EXPECT_EQ(core::ToJson(*Decide(snapshot, kStart).wish),
            core::ToJson(*Decide(snapshot, kStart + seconds(5)).wish));
}

}  // namespace
}  // namespace lockstep::cli
