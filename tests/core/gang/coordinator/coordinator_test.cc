#include "core/gang/coordinator/coordinator.h"

#include <gmock/gmock.h>

#include <csignal>
#include <limits>

#include "core/gang/status/status_api.h"
#include "tests/core/gang/gang_fixture.h"

namespace lockstep::core {
namespace {

using CoordinatorTest = GangFixture;

TEST_F(CoordinatorTest, StartsTheFirstGenerationWhenAllMachinesHaveJoined) {
  Begin(3);
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
  EXPECT_EQ(coordinator_->generation().ToString(), "1-1");
  for (const Machine& m : machines_) {
    ASSERT_EQ(m.spawns.size(), 1U);
    EXPECT_EQ(m.spawns[0].start.master_port, 29500U);
    EXPECT_GT(m.spawns[0].lease_end, now_);
  }
}

TEST_F(CoordinatorTest, ReachesSuccessWhenEveryRankExitsZero) {
  Begin(2);
  FinishAll();
  ASSERT_TRUE(coordinator_->verdict().has_value());
  EXPECT_EQ(coordinator_->verdict()->exit_code, 0U);
  for (const Machine& m : machines_) {
    ASSERT_TRUE(m.exit.has_value());
    EXPECT_EQ(m.exit->code, 0);
    EXPECT_TRUE(m.exit->verdict.has_value());
  }
  ASSERT_TRUE(coordinator_exit_.has_value());
  EXPECT_EQ(coordinator_exit_->code, 0);
}

TEST_F(CoordinatorTest, ASuccessTellsTheLastFailureThatWasOvercome) {
  Begin(2);
  Kill(1, 3, SIGKILL);
  FinishAll();
  ASSERT_TRUE(coordinator_->verdict());
  EXPECT_EQ(coordinator_->verdict()->exit_code, 0U);
  EXPECT_EQ(coordinator_->verdict()->failure.message, "rank 3 on machine 1 was killed by SIGKILL");
}

TEST_F(CoordinatorTest, RestartsTheWholeGangInPlaceWhenAProcessIsKilled) {
  Begin(2);
  Kill(1, 3, SIGKILL);
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
  EXPECT_EQ(coordinator_->generation().ToString(), "1-2");
  EXPECT_EQ(machines_[0].stops.size(), 1U);
  EXPECT_EQ(machines_[1].spawns.size(), 2U);
  EXPECT_EQ(machines_[1].spawns[1].start.restarts, 1U);
  const Failure& failure = coordinator_->history()[0].failure;
  EXPECT_EQ(failure.cause, Cause::kProcessSignal);
  EXPECT_EQ(failure.rank, 3);
  EXPECT_EQ(failure.message, "rank 3 on machine 1 was killed by SIGKILL");
  EXPECT_EQ(coordinator_->counters().process_failures, 1U);
}

TEST_F(CoordinatorTest, TheCauseIsSureIfNoPeersEndCanBeTheReasonOfADeath) {
  Begin(2);
  Kill(1, 2, SIGKILL);
  ASSERT_EQ(machines_[0].stops.size(), 1U);
  EXPECT_TRUE(machines_[0].stops[0].sure);
  EXPECT_TRUE(machines_[1].stops.at(0).sure);
}

TEST_F(CoordinatorTest, TheCauseIsNotSureIfAPeersEndMayBeTheReasonOfADeath) {
  Begin(2);
  Kill(1, 2, SIGABRT);
  ASSERT_EQ(machines_[0].stops.size(), 1U);
  EXPECT_FALSE(machines_[0].stops[0].sure);
}

TEST_F(CoordinatorTest, WaitsForEveryMachineToConfirmItsRanksDead) {
  Begin(2);
  machines_[0].hold_death = true;
  Kill(1, 2, SIGSEGV);
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kStopping);
  EXPECT_EQ(machines_[1].spawns.size(), 1U);
  machines_[0].hold_death = false;
  Do(0, machines_[0].member->OnAllDead(now_, machines_[0].member->generation()));
  Settle();
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
}

TEST_F(CoordinatorTest, FailsWithTheFirstRealCauseWhenTheBudgetIsSpent) {
  policy_.max_restarts = 1;
  Begin(2);
  Kill(0, 1, SIGKILL);
  Kill(1, 2, SIGABRT);
  ASSERT_TRUE(coordinator_->verdict().has_value());
  EXPECT_EQ(coordinator_->verdict()->exit_code, 70U);
  EXPECT_EQ(coordinator_->verdict()->failure.rank, 2);
  EXPECT_EQ(coordinator_->verdict()->failure.signal, SIGABRT);
}

TEST_F(CoordinatorTest, ACutConnectionStopsNothing) {
  Begin(2);
  Cut(1);
  Advance(seconds(2));
  Connect(1);
  Settle();
  EXPECT_EQ(coordinator_->generation().ToString(), "1-1");
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
  EXPECT_TRUE(machines_[1].stops.empty());
}

TEST_F(CoordinatorTest, ADeathReportedAfterACutIsNotLost) {
  Begin(2);
  Cut(1);
  Kill(1, 3, SIGKILL);
  Advance(seconds(1));
  Connect(1);
  Settle();
  EXPECT_EQ(coordinator_->generation().ToString(), "1-2");
  EXPECT_EQ(coordinator_->history()[0].failure.rank, 3);
}

TEST_F(CoordinatorTest, ASilentMachineEndsTheLeaseEverywhereAndThenIsLost) {
  Begin(3);
  Cut(2);
  Advance(seconds(12) + milliseconds(800));
  for (const Machine& m : machines_) {
    EXPECT_EQ(m.member->phase(), MemberPhase::kStopped);
    EXPECT_TRUE(m.member->report().lease_expired);
  }
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kStopping);
  Advance(seconds(3));
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kGathering);
  EXPECT_TRUE(coordinator_->machine(now_, 2).lost);
  EXPECT_EQ(coordinator_->last_failure().cause, Cause::kMachineLost);
  EXPECT_EQ(coordinator_->last_failure().machine, 2);
}

TEST_F(CoordinatorTest, AMachineBackBeforeItIsLostGivesTheCauseLeaseExpired) {
  Begin(2);
  Cut(1);
  Advance(seconds(13));
  Connect(1);
  Settle();
  Advance(seconds(2));
  EXPECT_EQ(coordinator_->last_failure().cause, Cause::kLeaseExpired);
  EXPECT_EQ(coordinator_->generation().ToString(), "1-2");
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
  EXPECT_EQ(coordinator_->counters().process_failures, 0U);
}

TEST_F(CoordinatorTest, AHigherAttemptStopsTheGenerationAndWaitsForTheOldLease) {
  Begin(2);
  Time answered = now_;
  machines_[1].cut = true;
  Join(1, 2, 2, /*predecessor_dead=*/false);
  Settle();
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kFencing);
  Advance(seconds(14));
  EXPECT_EQ(machines_[1].spawns.size(), 0U);
  Advance(seconds(2));
  ASSERT_EQ(machines_[1].spawns.size(), 1U);
  EXPECT_GE(now_, answered + seconds(15));
}

TEST_F(CoordinatorTest, AReplacementWhosePredecessorIsSeenDeadStartsAtOnce) {
  Begin(2);
  machines_[1].cut = true;
  Join(1, 2, 2, /*predecessor_dead=*/true);
  Settle();
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
  EXPECT_EQ(coordinator_->generation().ToString(), "1-2");
}

// Attempts are given out twice after an etcd was restored: what the operator saw dead is not the
// agent that had this attempt first.
TEST_F(CoordinatorTest, AnotherAgentOfTheSameAttemptIsAReplacementThatWaitsForTheOldLease) {
  Begin(2);
  const Time answered = now_;
  Cut(1);
  Exit(0, 0, 1);
  ASSERT_EQ(coordinator_->phase(), CoordinatorPhase::kStopping);
  Join(1, 1, 2, /*predecessor_dead=*/true);
  Settle();
  EXPECT_EQ(coordinator_->last_failure().cause, Cause::kMachineLost);
  EXPECT_EQ(coordinator_->last_failure().machine, 1);
  EXPECT_EQ(coordinator_->counters().process_failures, 0U);
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kFencing);
  Advance(seconds(16));
  ASSERT_EQ(machines_[1].spawns.size(), 1U);
  EXPECT_GE(now_, answered + seconds(15));
}

TEST_F(CoordinatorTest, ALowerAttemptIsRefusedAndExits75) {
  Begin(2);
  Join(1, 5);
  Settle();
  Machine current = std::move(machines_[1]);
  machines_[1] = Machine{};
  Join(1, 3);
  Settle();
  ASSERT_TRUE(machines_[1].exit.has_value());
  EXPECT_EQ(machines_[1].exit->code, 75);
  EXPECT_EQ(coordinator_->machine(now_, 1).attempt, 5U);
}

TEST_F(CoordinatorTest, FencesItselfWhenItHearsOfAHigherMachineZero) {
  Begin(2);
  MemberConfig config = machines_[1].member->config();
  config.machine0_attempt = 4;
  machines_[1].member = std::make_unique<Member>(config);
  Connect(1);
  Settle();
  ASSERT_TRUE(coordinator_exit_.has_value());
  EXPECT_EQ(coordinator_exit_->code, 75);
}

TEST_F(CoordinatorTest, GrantsACommitOnlyAfterAPingThatEveryoneAnswered) {
  Begin(2);
  Do(0, machines_[0].member->OnCommit(now_, 7));
  Settle();
  ASSERT_EQ(machines_[0].commits.size(), 1U);
  EXPECT_TRUE(machines_[0].commits[0].granted);
  EXPECT_EQ(machines_[0].commits[0].id, 7U);
  EXPECT_EQ(machines_[0].commits[0].number, 1U);
  machines_[1].cut = true;
  Do(0, machines_[0].member->OnCommit(now_, 8));
  Settle();
  EXPECT_EQ(machines_[0].commits.size(), 1U);
  Advance(seconds(13));
  ASSERT_EQ(machines_[0].commits.size(), 2U);
  EXPECT_FALSE(machines_[0].commits[1].granted);
}

// Whose exit 0 ends the job.
class SuccessTest : public GangFixture {
 protected:
  void BeginWithMachine0Deciding() {
    deciders_ = {0, 1};
    Begin(2);
  }
  void Finish(uint32_t index, uint32_t rank, bool by_itself) {
    Member& member = *machines_[index].member;
    Do(index, member.OnProcessFinished(now_, coordinator_->generation(), rank, by_itself));
    Settle();
  }
  void AllDead(uint32_t index) {
    Do(index, machines_[index].member->OnAllDead(now_, coordinator_->generation()));
    Settle();
  }
  void Suspend() {
    DesiredState desired;
    desired.job_uid = "job";
    desired.stop = DesiredState::DesiredStop{StopReason::kSuspended, seconds(30)};
    Desire(desired);
  }
  bool Succeeded() const { return coordinator_->verdict() && !coordinator_->verdict()->exit_code; }
};

TEST_F(SuccessTest, IsThatOfAllRanksUnlessThePolicySaysOtherwise) {
  Begin(2);
  Exit(0, 0, 0);
  Exit(0, 1, 0);
  Advance(seconds(1));
  EXPECT_FALSE(coordinator_->verdict());
  EXPECT_TRUE(machines_[1].stops.empty());
}

TEST_F(SuccessTest, OfMachineZeroStopsTheOthersWithinGracePeriodAndEndsTheJob) {
  BeginWithMachine0Deciding();
  Exit(0, 0, 0);
  EXPECT_FALSE(coordinator_->verdict());
  Exit(0, 1, 0);
  ASSERT_TRUE(Succeeded());
  EXPECT_THAT(coordinator_->verdict()->reason, testing::HasSubstr("the others were stopped"));
  ASSERT_EQ(machines_[1].stops.size(), 1u);
  EXPECT_EQ(machines_[1].stops[0].kill_at, now_ + coordinator_->config().grace);
  EXPECT_EQ(coordinator_->counters().stops, 0u);
  EXPECT_FALSE(coordinator_->history().back().stop_reason);
}

TEST_F(SuccessTest, OfMachineZeroCountsOthersAsDoneWhateverTheyExitWith) {
  BeginWithMachine0Deciding();
  machines_[1].hold_death = true;
  Exit(0, 0, 0);
  Exit(0, 1, 0);
  EXPECT_FALSE(coordinator_->verdict());
  Exit(1, 2, 143);
  Exit(1, 3, 1);
  AllDead(1);
  EXPECT_TRUE(Succeeded());
  EXPECT_EQ(coordinator_->counters().process_failures, 0u);
}

TEST_F(SuccessTest, OfMachineZeroIsNotUndoneByARankThatFailedBecauseOfIt) {
  BeginWithMachine0Deciding();
  machines_[0].hold_death = true;
  Exit(0, 0, 0);
  Exit(1, 2, 1);  // is heard of before the end of rank 1
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kStopping);
  Finish(0, 1, /*by_itself=*/true);
  AllDead(0);
  EXPECT_TRUE(Succeeded());
}

TEST_F(SuccessTest, OfMachineZeroIsNoExitOnSigterm) {
  BeginWithMachine0Deciding();
  machines_[0].hold_death = true;
  Suspend();
  Finish(0, 0, /*by_itself=*/false);
  Finish(0, 1, /*by_itself=*/false);
  AllDead(0);
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kHeld);
  EXPECT_FALSE(coordinator_->verdict());
}

TEST_F(SuccessTest, OfMachineZeroWaitsForNobodyWhoFailsBeforeItsEnd) {
  BeginWithMachine0Deciding();
  Exit(0, 0, 0);
  Exit(1, 2, 1);
  EXPECT_FALSE(coordinator_->verdict());
  EXPECT_EQ(coordinator_->counters().process_failures, 1u);
}

TEST_F(SuccessTest, OfMachineZeroNeedsEveryMachineToHaveRun) {
  BeginWithMachine0Deciding();
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
  machines_[1].hold_spawn = true;
  Kill(0, 0, SIGKILL);
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kStarting);
  Exit(0, 0, 0);
  Exit(0, 1, 0);
  Exit(1, 2, 127);
  EXPECT_FALSE(Succeeded());
}

TEST_F(SuccessTest, OfARoleIsThatOfItsRanksWhereverTheyAre) {
  deciders_ = {1, 2};
  Begin(2);
  Exit(0, 1, 0);
  EXPECT_TRUE(machines_[0].stops.empty());
  EXPECT_FALSE(coordinator_->verdict());
  Exit(1, 2, 0);
  ASSERT_TRUE(Succeeded());
  EXPECT_THAT(machines_[0].stops, testing::SizeIs(1));
  EXPECT_THAT(machines_[1].stops, testing::SizeIs(1));
}

// A rank that says that it lost a peer: somebody else's end may not be seen yet.
TEST_F(CoordinatorTest, AProcessThatLostAPeerGivesTheOneItLostTimeToShowItself) {
  Begin(2, 1);
  Exit(0, 0, 75);
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
  EXPECT_LE(coordinator_->NextWake(), now_ + kSettle);
  Advance(milliseconds(100));
  Kill(1, 1, SIGABRT);
  EXPECT_EQ(coordinator_->last_failure().rank, 1);
  EXPECT_EQ(coordinator_->last_failure().signal, SIGABRT);
}

TEST_F(CoordinatorTest, AProcessThatLostAPeerWaitsForItNoLongerThanThat) {
  Begin(2, 1);
  Exit(0, 0, 75);
  Advance(kSettle);
  EXPECT_EQ(coordinator_->counters().process_failures, 1u);
  EXPECT_EQ(coordinator_->last_failure().exit_code, 75);
}

TEST_F(CoordinatorTest, AProcessWithoutPeersHasNobodyToWaitFor) {
  Begin(1, 1);
  Exit(0, 0, 75);
  EXPECT_EQ(coordinator_->counters().process_failures, 1u);
}

// Machine 1 takes half as long again for each of so many steps.
class StragglingGang : public GangFixture {
 protected:
  void Train(int steps) {
    Begin(3, 1);
    for (int step = 1; step <= steps; ++step) {
      for (uint32_t i = 0; i < 3; ++i) {
        const double wait = i == 1 ? 0 : 0.2;
        Do(i, machines_[i].member->OnProgress(
                  now_, {.rank = i, .step = step, .waits = step, .waited = step * wait}));
      }
      Advance(milliseconds(600), milliseconds(200));
    }
  }
};

TEST_F(StragglingGang, ItsStragglerIsNamedAndStays) {
  Train(40);
  ASSERT_TRUE(coordinator_->straggler());
  EXPECT_EQ(coordinator_->straggler()->machine, 1u);
  Do(0, machines_[0].member->OnCommit(now_, 7));
  Settle();
  EXPECT_FALSE(coordinator_->machine(now_, 1).replace);
}

TEST_F(StragglingGang, ItsStragglerIsReplacedOnceThereIsACheckpoint) {
  policy_.stragglers = Stragglers::kReplace;
  Train(40);
  EXPECT_FALSE(coordinator_->machine(now_, 1).replace);
  Do(0, machines_[0].member->OnCommit(now_, 7));
  Settle();
  EXPECT_TRUE(coordinator_->machine(now_, 1).replace);
  EXPECT_FALSE(coordinator_->machine(now_, 0).replace);
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
}

TEST_F(StragglingGang, TheNextGenerationBeginsWithoutEvidence) {
  policy_.stragglers = Stragglers::kReplace;
  Train(40);
  Do(0, machines_[0].member->OnCommit(now_, 7));
  Settle();
  Kill(2, 2, 9);
  Advance(seconds(3));
  EXPECT_EQ(coordinator_->generation().n, 2u);
  EXPECT_FALSE(coordinator_->straggler());
  EXPECT_FALSE(coordinator_->machine(now_, 1).replace);
  Do(0, machines_[0].member->OnCommit(now_, 8));
  Settle();
  EXPECT_FALSE(coordinator_->machine(now_, 1).replace);
}

TEST_F(CoordinatorTest, AGenerationThatLostAMachineHaltedAtItsLastAnswer) {
  Begin(2);
  Advance(seconds(5));
  machines_[1].cut = true;
  const Time cut = now_;
  Advance(seconds(20));
  const GenerationRecord& record = coordinator_->history().at(0);
  ASSERT_TRUE(record.halted);
  EXPECT_LE(*record.halted, cut);
  EXPECT_GT(*record.halted, cut - seconds(3));
  EXPECT_GT(*record.stop_sent, cut + seconds(10));
}

TEST_F(CoordinatorTest, AGenerationWhoseRankDiedHaltedThen) {
  Begin(2);
  Advance(seconds(5));
  Kill(0, 1, 9);
  const GenerationRecord& record = coordinator_->history().at(0);
  EXPECT_EQ(record.halted, record.died);
  EXPECT_TRUE(record.halted);
}

TEST_F(CoordinatorTest, TheVerdictNamesTheGenerationsThatEndedBeforeAnybodyAsked) {
  const Time born = now_;
  Begin(2);
  Advance(seconds(1));
  Kill(0, 1, SIGSEGV);
  Advance(seconds(1));
  Kill(0, 1, SIGSEGV);
  Advance(seconds(1));
  ASSERT_TRUE(coordinator_->verdict());
  for (const Machine& machine : machines_) {
    ASSERT_TRUE(machine.exit && machine.exit->verdict);
    const std::vector<GenerationRecord>& ended = machine.exit->verdict->ended;
    ASSERT_EQ(ended.size(), 2U);
    EXPECT_EQ(ended[0].generation, (Generation{1, 1}));
    EXPECT_EQ(ended[0].failure.cause, Cause::kProcessSignal);
    EXPECT_EQ(ended[0].ended, coordinator_->history().front().Shifted(-born).ended);
    EXPECT_EQ(ended[1].failure.cause, Cause::kEarlyCrash);
  }
  EXPECT_TRUE(StatusOf(*coordinator_, now_, born).verdict->ended.empty());
}

TEST_F(CoordinatorTest, ADesiredStateToStopHoldsTheGangUntilItIsTakenBack) {
  Begin(2);
  DesiredState desired;
  desired.job_uid = "job";
  desired.stop = DesiredState::DesiredStop{StopReason::kSuspended, seconds(30)};
  Desire(desired);
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kHeld);
  EXPECT_EQ(machines_[0].stops.at(0).kill_at, now_ + seconds(30));
  EXPECT_EQ(coordinator_->counters().stops, 1U);
  EXPECT_EQ(coordinator_->counters().process_failures, 0U);
  desired.stop.reset();
  Desire(desired);
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
}

TEST_F(CoordinatorTest, ADesiredStateToStopBeforeTheGangIsCompleteHoldsItAtOnce) {
  Begin(2);
  Cut(1);
  Kill(0, 0, SIGKILL);
  DesiredState desired;
  desired.job_uid = "job";
  desired.stop = DesiredState::DesiredStop{StopReason::kScaled, seconds(30)};
  Desire(desired);
  Advance(seconds(20));
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kHeld);
}

TEST_F(CoordinatorTest, AGangIsHeldOnceRanksOfTheLastMachineZeroAreDead) {
  Begin(2);
  machines_[1].hold_death = true;
  CoordinatorConfig config = coordinator_->config();
  config.attempt = 2;
  coordinator_ = std::make_unique<Coordinator>(config, now_);
  DesiredState desired;
  desired.job_uid = "job";
  desired.epoch = 2;
  desired.stop = DesiredState::DesiredStop{StopReason::kSuspended, seconds(30)};
  Desire(desired);
  Join(0, 2);
  Connect(1);
  Settle();
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kFencing);
  Do(1, machines_[1].member->OnAllDead(now_, Generation{1, 1}));
  Settle();
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kHeld);
}

TEST_F(CoordinatorTest, AnOlderDesiredStateIsAConflict) {
  Begin(1);
  DesiredState desired;
  desired.job_uid = "job";
  desired.epoch = 3;
  Desire(desired);
  desired.epoch = 2;
  EXPECT_EQ(coordinator_->OnDesiredState(now_, desired).error().kind, ErrorKind::kConflict);
  desired.epoch = 3;
  desired.job_uid = "other";
  EXPECT_EQ(coordinator_->OnDesiredState(now_, desired).error().kind, ErrorKind::kInvalid);
}

TEST_F(CoordinatorTest, ADrainedMachineStopsTheGangOnceAndLeavesWith143) {
  Begin(2);
  Do(1, machines_[1].member->OnTerminate(now_, seconds(20)));
  Settle();
  ASSERT_TRUE(machines_[1].exit.has_value());
  EXPECT_EQ(machines_[1].exit->code, 143);
  EXPECT_FALSE(machines_[0].exit.has_value());
  EXPECT_EQ(machines_[0].stops.at(0).kill_at, now_ + seconds(20));
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kGathering);
  Join(1, 2);
  Settle();
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
  EXPECT_EQ(coordinator_->counters().process_failures, 0U);
}

TEST_F(CoordinatorTest, AContainerThatEndedIsTheCauseNotItsPeersErrors) {
  Begin(2);
  machines_[1].cut = true;
  Exit(0, 0, 1);  // a victim's collective fails first
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kStopping);
  DesiredState desired;
  desired.job_uid = "job";
  desired.terminated = {{1, 1, Cause::kMachineLost}};
  Desire(desired);
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kGathering);
  EXPECT_EQ(coordinator_->last_failure().cause, Cause::kMachineLost);
  EXPECT_EQ(coordinator_->last_failure().machine, 1);
  EXPECT_EQ(coordinator_->counters().process_failures, 0U);
}

TEST_F(CoordinatorTest, AContainersOutOfMemoryIsChargedToTheApplication) {
  policy_.max_restarts = 0;
  Begin(2);
  DesiredState desired;
  desired.job_uid = "job";
  desired.machine_failures.out_of_memory = 1;
  desired.terminated = {{1, 1, Cause::kOutOfMemory}};
  Desire(desired);
  ASSERT_TRUE(coordinator_->verdict().has_value());
  EXPECT_EQ(coordinator_->verdict()->exit_code, 70U);
  EXPECT_EQ(coordinator_->verdict()->failure.cause, Cause::kOutOfMemory);
}

TEST_F(CoordinatorTest, ARanksOutOfMemoryIsCountedHereForNoOperatorSawIt) {
  policy_.max_restarts = 1;
  Begin(2);
  for (int times = 1; times <= 2; ++times) {
    ASSERT_FALSE(coordinator_->verdict().has_value());
    Kill(1, 3, SIGKILL, Cause::kOutOfMemory);
    EXPECT_EQ(coordinator_->counters().process_failures, static_cast<uint32_t>(times));
  }
  ASSERT_TRUE(coordinator_->verdict().has_value());
  EXPECT_EQ(coordinator_->verdict()->failure.cause, Cause::kOutOfMemory);
}

TEST_F(CoordinatorTest, ACrashThatRepeatsItselfWithinAMinuteFailsTheJob) {
  Begin(2);
  Exit(1, 3, 5);
  Advance(seconds(2));
  ASSERT_EQ(coordinator_->generation().ToString(), "1-2");
  Exit(1, 3, 5);
  ASSERT_TRUE(coordinator_->verdict());
  EXPECT_EQ(coordinator_->verdict()->failure.cause, Cause::kEarlyCrash);
  EXPECT_NE(coordinator_->verdict()->reason.find("within 60 s of the start"), std::string::npos);
}

TEST_F(CoordinatorTest, ACrashIsNotEarlyIfAStepIsKnownThatItsMemberDidNotReport) {
  Begin(2);
  Exit(1, 3, 5);
  Advance(seconds(2));
  Progress progress{coordinator_->generation(), {{2U, 30}}};  // read from the program's output
  Do(coordinator_->OnMessage(now_, machines_[1].connection, progress));
  Exit(1, 3, 5);
  EXPECT_FALSE(coordinator_->verdict());
}

TEST_F(CoordinatorTest, ProgressOfRanksThatAreNotTheMachinesOwnIsNotKept) {
  Begin(2);
  Progress progress{coordinator_->generation(), {}};
  for (const uint32_t rank : {0U, 2U, 4U, 4'000'000'000U}) progress.ranks.push_back({rank, 7});
  Do(coordinator_->OnMessage(now_, machines_[1].connection, progress));
  ASSERT_EQ(coordinator_->progress().size(), 1U);
  EXPECT_EQ(coordinator_->progress().begin()->first, 2U);
}

TEST_F(CoordinatorTest, FiguresBeyondWhatAnAgentMayTellAreNotKept) {
  Begin(2);
  RankProgress rank{2U, 7};
  for (int i = 0; i < 40; ++i) rank.figures.push_back({"name" + std::to_string(i), 1});
  rank.figures[0].name = std::string(kMaxFigureName + 1, 'n');
  rank.figures[1].value = std::numeric_limits<double>::quiet_NaN();
  Do(coordinator_->OnMessage(now_, machines_[1].connection,
                             Progress{coordinator_->generation(), {rank}}));
  EXPECT_EQ(coordinator_->progress().begin()->second.figures.size(), kMaxNamedFigures - 2);
}

TEST_F(CoordinatorTest, AMachinesUsageIsShownWhileItIsConnected) {
  Begin(2);
  EXPECT_FALSE(coordinator_->machine(now_, 1).usage);
  const uint64_t version = coordinator_->version();
  Do(1, machines_[1].member->OnUsage(now_, {.cpu_millicores = 1500, .memory = 1 << 20}));
  Settle();
  ASSERT_TRUE(coordinator_->machine(now_, 1).usage);
  EXPECT_EQ(coordinator_->machine(now_, 1).usage->cpu_millicores, 1500);
  EXPECT_EQ(coordinator_->version(), version) << "nobody is woken for it";
  Do(coordinator_->OnMessage(now_, machines_[1].connection,
                             UsageMessage{{std::numeric_limits<int64_t>::max(), -9, 0, 0}}));
  EXPECT_EQ(coordinator_->machine(now_, 1).usage->cpu_millicores, int64_t{1} << 53);
  EXPECT_EQ(coordinator_->machine(now_, 1).usage->memory, -1);
  Cut(1);
  EXPECT_FALSE(coordinator_->machine(now_, 1).usage);
}

TEST_F(CoordinatorTest, TheHistoryOfARunningGenerationHasTheFurthestStepOfAnyRank) {
  Begin(2);
  Progress progress{coordinator_->generation(), {}};
  for (const auto& [rank, step] : {std::pair(2U, 7), std::pair(3U, 9)}) {
    progress.ranks.push_back({rank, step});
  }
  Do(coordinator_->OnMessage(now_, machines_[1].connection, progress));
  EXPECT_EQ(coordinator_->history().back().last_step, 9);
}

TEST_F(CoordinatorTest, AMachine0ThatGrantsALeaseOfNothingCannotMakeAMemberSpin) {
  Begin(2);
  Ping ping{now_, 1, {}};
  ping.lease.present = true;
  Member& member = *machines_[1].member;
  Do(1, member.OnMessage(now_, ping));
  Do(1, member.OnTimer(now_));
  EXPECT_GT(member.NextWake(), now_);
}

TEST_F(CoordinatorTest, AStopOfAGenerationThatNeverCameIsConfirmedOnceTheRanksAreDead) {
  Begin(2);
  machines_[1].hold_death = true;
  Member& member = *machines_[1].member;
  const Generation running = member.generation();
  Do(1, member.OnMessage(now_, Stop{{1, running.n + 1}, StopReason::kMachineLost, {}}));
  EXPECT_EQ(member.phase(), MemberPhase::kStopping);
  EXPECT_EQ(member.generation(), running);
  Do(1, member.OnAllDead(now_, running));
  EXPECT_EQ(member.phase(), MemberPhase::kStopped);
  EXPECT_EQ(member.generation().n, running.n + 1);
}

TEST_F(CoordinatorTest, NumbersThatAnotherJobHasAreLeftOutAtOnce) {
  prepare_taken_ = 41;
  Begin(2);
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
  EXPECT_EQ(coordinator_->generation().ToString(), "1-42");
}

TEST_F(CoordinatorTest, AHigherEpochOutranksASpecThatWentBack) {
  Begin(2);
  DesiredState desired;
  desired.job_uid = "job";
  desired.epoch = 5;
  desired.observed_generation = 7;
  Desire(desired);
  desired.observed_generation = 6;
  EXPECT_EQ(coordinator_->OnDesiredState(now_, desired).error().kind, ErrorKind::kConflict);
  EXPECT_EQ(coordinator_->desired_observed(), 7);
  desired.epoch = 6;
  EXPECT_TRUE(coordinator_->OnDesiredState(now_, desired).ok());
  desired.epoch = 5;
  EXPECT_EQ(coordinator_->OnDesiredState(now_, desired).error().kind, ErrorKind::kConflict);
}

TEST_F(CoordinatorTest, LeavesWithTheEpochThatItNeedsWhereALaterAttemptHasBegunGenerations) {
  prepare_later_ = 9;
  Begin(2);
  ASSERT_TRUE(coordinator_exit_);
  EXPECT_EQ(coordinator_exit_->code, 75);
  EXPECT_EQ(coordinator_exit_->needs_epoch, 10U);
  EXPECT_EQ(coordinator_exit_->reason,
            "fenced: attempt 9 of machine 0 has begun generations already");
  for (const Machine& machine : machines_) EXPECT_TRUE(machine.spawns.empty());
}

TEST_F(CoordinatorTest, AGenerationThatCannotBePreparedIsTriedAgainUnderTheNextNumber) {
  prepare_error_ = "no space left on device";
  Begin(1);
  EXPECT_NE(coordinator_->phase(), CoordinatorPhase::kRunning);
  prepare_error_.clear();
  Advance(seconds(2));
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
  EXPECT_EQ(coordinator_->generation().n, 2U);
}

TEST_F(CoordinatorTest, AGenerationThatNoLaterTryCanPrepareFailsTheJobAtOnce) {
  prepare_error_ = "/ckpt holds checkpoints of another job";
  prepare_hopeless_ = true;
  // Not even a rule that matches anything restarts it.
  policy_.rules = {{{}, {}, ".*", FailureAction::kRestart}};
  Begin(2);
  EXPECT_EQ(prepared_.size(), 1U);
  ASSERT_TRUE(coordinator_->verdict());
  EXPECT_EQ(coordinator_->verdict()->exit_code, 78U);
  EXPECT_EQ(coordinator_->verdict()->failure.cause, Cause::kConfiguration);
  EXPECT_EQ(coordinator_->verdict()->failure.message, prepare_error_);
  for (const Machine& machine : machines_) {
    ASSERT_TRUE(machine.exit);
    EXPECT_EQ(machine.exit->code, 78);
    EXPECT_TRUE(machine.exit->verdict);
    EXPECT_TRUE(machine.spawns.empty());
  }
}

TEST_F(CoordinatorTest, ACheckpointFolderThatDoesNotAnswerIsNamedAfterFiveSeconds) {
  prepare_hangs_ = true;
  Begin(1);
  Advance(milliseconds(4900));
  EXPECT_EQ(coordinator_->Reason(), "");
  const uint64_t version = coordinator_->version();
  EXPECT_LE(coordinator_->NextWake(), now_ + milliseconds(100));
  Advance(milliseconds(100));
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kPreparing);
  EXPECT_TRUE(coordinator_->Reason().starts_with("waiting for the checkpoint folder"));
  EXPECT_GT(coordinator_->version(), version);
  Do(coordinator_->OnPrepared(now_, {prepared_.back(), "127.0.0.1", 29500, "", ""}));
  Settle();
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
  EXPECT_EQ(coordinator_->Reason(), "");
}

TEST_F(CoordinatorTest, OnesThatCannotBePreparedWaitLongerEachTime) {
  prepare_error_ = "no such folder";
  Begin(1);
  for (const Duration pause : {seconds(1), seconds(5), seconds(30), seconds(30)}) {
    const uint32_t n = coordinator_->generation().n;
    Advance(pause - milliseconds(50));
    EXPECT_EQ(coordinator_->generation().n, n);
    Advance(milliseconds(50));
    EXPECT_EQ(coordinator_->generation().n, n + 1);
  }
}

TEST_F(CoordinatorTest, ALowerLCountsOnlyWhenOldLeasesAreOut) {
  Begin(2);
  DesiredState desired;
  desired.job_uid = "job";
  desired.policy = policy_;
  desired.policy->machine_lost_after = seconds(2);
  machines_[1].cut = true;
  Desire(desired);
  Advance(seconds(10));
  EXPECT_FALSE(coordinator_->machine(now_, 1).lost);
  Advance(seconds(6));
  EXPECT_TRUE(coordinator_->machine(now_, 1).lost);
}

TEST_F(CoordinatorTest, TheBudgetIsWholeAfterResetAfterOfHealth) {
  policy_.reset_after = minutes(1);
  Begin(1);
  Exit(0, 0, 1);
  EXPECT_EQ(coordinator_->counters().application_used(), 1);
  Advance(minutes(2), milliseconds(700));
  EXPECT_EQ(coordinator_->counters().application_used(), 0);
  EXPECT_EQ(coordinator_->counters().process_failures, 1U);
}

}  // namespace
}  // namespace lockstep::core
