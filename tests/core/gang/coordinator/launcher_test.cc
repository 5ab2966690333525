// A launcher on machine 0 that has other machines run what it needs there.
#include <gmock/gmock.h>

#include <csignal>

#include "core/exit_codes.h"
#include "tests/core/gang/gang_fixture.h"

namespace lockstep::core {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class LauncherGang : public GangFixture {
 protected:
  void BeginLaunched(uint32_t machines) {
    names_.kind = ProcessKind::kLauncher;
    deciders_ = {0};
    Begin(machines, 1);
  }

  core::Run Asked(uint32_t machine, uint64_t id) {
    return {coordinator_->generation(), id, machine, "orted"};
  }
  void Ask(uint32_t machine, uint64_t id = 1) { AskThat(Asked(machine, id)); }
  void AskThat(const core::Run& run, uint32_t who = 0) {
    Do(who, machines_[who].member->OnRun(now_, run));
    Settle();
  }
  void End(uint32_t machine, uint64_t id, uint32_t exit_code, const std::string& problem = "") {
    Ran ran{coordinator_->generation(), id, machine, exit_code, problem};
    Do(machine, machines_[machine].member->OnRan(now_, ran));
    Settle();
  }
  void Finish() {
    Do(0, machines_[0].member->OnProcessFinished(now_, coordinator_->generation(), 0, true));
    Settle();
    Advance(seconds(1));
  }
};

TEST_F(LauncherGang, RunsWhatItAsksForAndHearsOfItsEnd) {
  BeginLaunched(3);
  Ask(2, 7);
  ASSERT_THAT(machines_[2].runs, SizeIs(1));
  EXPECT_EQ(machines_[2].runs[0], Asked(2, 7));
  EXPECT_THAT(machines_[1].runs, IsEmpty());
  End(2, 7, 3, "no library");
  ASSERT_THAT(machines_[0].answers, SizeIs(1));
  EXPECT_EQ(machines_[0].answers[0].id, 7);
  EXPECT_EQ(machines_[0].answers[0].exit_code, 3);
  EXPECT_EQ(machines_[0].answers[0].problem, "no library");
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
}

TEST_F(LauncherGang, IsAskedAgainOverANewConnectionAndRunsItOnce) {
  BeginLaunched(2);
  machines_[1].cut = true;
  Ask(1);
  EXPECT_THAT(machines_[1].runs, IsEmpty());
  Cut(1);
  Connect(1);
  Settle();
  EXPECT_THAT(machines_[1].runs, SizeIs(1));
  Cut(1);
  End(1, 1, 0);
  EXPECT_THAT(machines_[0].answers, IsEmpty());
  Connect(1);
  Settle();
  EXPECT_THAT(machines_[1].runs, SizeIs(1));
  EXPECT_THAT(machines_[0].answers, SizeIs(1));
}

TEST_F(LauncherGang, NothingIsRunForAGenerationThatHasEnded) {
  BeginLaunched(2);
  const core::Run past = Asked(1, 1);
  Kill(0, 0, SIGKILL);
  Advance(seconds(5));
  ASSERT_NE(past.generation, coordinator_->generation());
  AskThat(past);
  ASSERT_THAT(machines_[0].answers, SizeIs(1));
  EXPECT_EQ(machines_[0].answers[0].exit_code, kExitNeverBegan);
  EXPECT_THAT(machines_[0].answers[0].problem, HasSubstr("has ended"));
  // Nor where it comes by the wire.
  Do(1, machines_[1].member->OnMessage(now_, past));
  Settle();
  EXPECT_THAT(machines_[1].runs, IsEmpty());
}

TEST_F(LauncherGang, NothingIsRunOnceTheGenerationIsStopping) {
  BeginLaunched(2);
  machines_[0].hold_death = machines_[1].hold_death = true;
  Kill(0, 0, SIGKILL);
  Ask(1);
  EXPECT_THAT(machines_[1].runs, IsEmpty());
  ASSERT_THAT(machines_[0].answers, SizeIs(1));
  EXPECT_THAT(machines_[0].answers[0].problem, HasSubstr("stopping"));
}

TEST_F(LauncherGang, OnlyMachine0MayAskAndOnlyOfTheOthers) {
  BeginLaunched(2);
  Ask(0, 1);
  Ask(2, 2);
  AskThat(Asked(0, 3), 1);
  EXPECT_THAT(machines_[0].runs, IsEmpty());
  EXPECT_THAT(machines_[1].runs, IsEmpty());
  ASSERT_THAT(machines_[0].answers, SizeIs(2));
  ASSERT_THAT(machines_[1].answers, SizeIs(1));
  EXPECT_EQ(machines_[1].answers[0].exit_code, kExitNeverBegan);
}

TEST_F(LauncherGang, InAnotherJobNobodyMayAsk) {
  Begin(2);
  Ask(1);
  EXPECT_THAT(machines_[1].runs, IsEmpty());
  ASSERT_THAT(machines_[0].answers, SizeIs(1));
}

TEST_F(LauncherGang, SoManyMayRunAtOnceAndNoMore) {
  BeginLaunched(2);
  for (uint64_t id = 1; id <= 8193; ++id) Ask(1, id);
  EXPECT_THAT(machines_[1].runs, SizeIs(8192));
  ASSERT_THAT(machines_[0].answers, SizeIs(1));
  EXPECT_EQ(machines_[0].answers[0].exit_code, kExitNeverBegan);
  EXPECT_THAT(machines_[0].answers[0].problem, HasSubstr("too many"));
  End(1, 1, 0);
  Ask(1, 8194);
  EXPECT_THAT(machines_[1].runs, SizeIs(8193));
}

TEST_F(LauncherGang, WhatEndedLongAgoIsForgottenAndNotRunAgain) {
  BeginLaunched(2);
  for (uint64_t id = 1; id <= 4100; ++id) {
    Ask(1, id);
    End(1, id, 0);
  }
  ASSERT_THAT(machines_[1].runs, SizeIs(4100));
  Do(1, machines_[1].member->OnMessage(now_, Asked(1, 1)));
  Do(1, machines_[1].member->OnMessage(now_, Asked(1, 4000)));
  EXPECT_THAT(machines_[1].runs, SizeIs(4100));
}

TEST_F(LauncherGang, ItsEndIsTheJobsAndTheOthersAreStopped) {
  BeginLaunched(2);
  Ask(1);
  Finish();
  ASSERT_TRUE(coordinator_->verdict());
  EXPECT_EQ(coordinator_->verdict()->exit_code, 0);
  EXPECT_THAT(coordinator_->verdict()->reason, HasSubstr("launcher on machine 0"));
  EXPECT_THAT(machines_[1].stops, SizeIs(1));
}

TEST_F(LauncherGang, AMachineThatItNeverAskedFailsTheJob) {
  BeginLaunched(3);
  Ask(1);
  Finish();
  ASSERT_TRUE(coordinator_->verdict());
  EXPECT_EQ(coordinator_->verdict()->exit_code, static_cast<uint32_t>(kExitConfiguration));
  EXPECT_EQ(coordinator_->verdict()->failure.machine, 2);
  EXPECT_THAT(coordinator_->verdict()->failure.message,
              AllOf(HasSubstr("ran no command on machine 2"), HasSubstr("-np")));
}

TEST_F(LauncherGang, ASmallerWorldOfItsRanksFailsTheJob) {
  BeginLaunched(2);
  Ask(1);
  coordinator_->OnMpiWorld(1, 4);  // of a program that prepares
  coordinator_->OnMpiWorld(2, 4);
  Finish();
  ASSERT_TRUE(coordinator_->verdict());
  EXPECT_EQ(coordinator_->verdict()->exit_code, static_cast<uint32_t>(kExitConfiguration));
  EXPECT_THAT(coordinator_->verdict()->failure.message, HasSubstr("its ranks were 2 and not 4"));
}

TEST_F(LauncherGang, AWholeWorldIsASuccessWhateverWasPreparedByASmallerOne) {
  BeginLaunched(2);
  Ask(1);
  coordinator_->OnMpiWorld(4, 4);
  coordinator_->OnMpiWorld(1, 4);
  Finish();
  ASSERT_TRUE(coordinator_->verdict());
  EXPECT_EQ(coordinator_->verdict()->exit_code, 0U);
}

TEST_F(LauncherGang, WhatAnEarlierGenerationAskedForDoesNotCount) {
  BeginLaunched(2);
  Ask(1);
  Kill(0, 0, SIGKILL);
  Advance(seconds(5));
  ASSERT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
  Finish();
  ASSERT_TRUE(coordinator_->verdict());
  EXPECT_EQ(coordinator_->verdict()->exit_code, static_cast<uint32_t>(kExitConfiguration));
}

TEST_F(LauncherGang, AKilledDaemonIsNamed) {
  BeginLaunched(2);
  Ask(1);
  Kill(1, 1, SIGKILL);
  EXPECT_EQ(coordinator_->last_failure().message,
            "the launcher's daemon on machine 1 was killed by SIGKILL");
}

TEST_F(LauncherGang, ADaemonThatExitsIsNotNamedBeforeTheLauncher) {
  BeginLaunched(2);
  Ask(1);
  Failure death;
  death.rank = 1;
  death.cause = Cause::kProcessExit;
  death.exit_code = 6;
  death.at = now_;
  death.stderr_tail = "the launcher's daemon exited with code 6";
  Do(1, machines_[1].member->OnProcessDied(now_, coordinator_->generation(), death));
  Settle();
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
  Advance(milliseconds(50));
  Exit(0, 0, 134);
  EXPECT_THAT(coordinator_->last_failure().message,
              HasSubstr("the launcher on machine 0 exited with code 134"));
}

TEST_F(LauncherGang, ADaemonThatExitsAloneIsNamed) {
  BeginLaunched(2);
  Ask(1);
  Failure death;
  death.rank = 1;
  death.cause = Cause::kProcessExit;
  death.exit_code = 127;
  death.at = now_;
  death.stderr_tail = "the launcher's daemon exited with code 127\nsh: orted: not found";
  Do(1, machines_[1].member->OnProcessDied(now_, coordinator_->generation(), death));
  Settle();
  Advance(milliseconds(400));
  EXPECT_EQ(coordinator_->last_failure().message,
            "the launcher's daemon on machine 1 exited with code 127");
}

}  // namespace
}  // namespace lockstep::core
