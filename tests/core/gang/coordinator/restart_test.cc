// Restarts on request, and edited code that fails.
#include <csignal>

#include "core/gang/status/status_api.h"
#include "tests/core/gang/gang_fixture.h"

namespace lockstep::core {
namespace {

class RestartTest : public GangFixture {
 protected:
  RestartTest() {
    desired_.job_uid = "job";
    desired_.epoch = 1;
  }
  void Say() { Desire(desired_); }
  void Ask(const std::string& id, bool at_commit = false) {
    desired_.restart = DesiredState::Restart{id, 1, at_commit, "alice: new rate"};
    Say();
  }
  void Commit(uint32_t machine) {
    Do(machine, machines_[machine].member->OnCommit(now_, ++commits_));
    Settle();
  }
  uint32_t Number() const { return coordinator_->generation().n; }
  bool Runs() const { return coordinator_->phase() == CoordinatorPhase::kRunning; }
  void WithCode(const std::string& digest, bool watched) {
    desired_.code = DesiredState::Code{digest, watched};
    Say();
  }

  DesiredState desired_;

 private:
  uint64_t commits_ = 0;
};

TEST_F(RestartTest, BeginsANewGenerationAtOnceAndChargesNothing) {
  Begin(2);
  Ask("a");
  EXPECT_TRUE(Runs());
  EXPECT_EQ(Number(), 2U);
  EXPECT_EQ(coordinator_->restarted(), "a");
  EXPECT_EQ(coordinator_->counters().stops, 1U);
  EXPECT_EQ(coordinator_->counters().application_used(), 0);
  const GenerationRecord& ended = coordinator_->history().front();
  EXPECT_EQ(ended.stop_reason, StopReason::kRestarted);
  EXPECT_EQ(ended.failure.cause, Cause::kStopRequested);
  EXPECT_EQ(ended.failure.message, "restarted on request of alice: new rate");
}

TEST_F(RestartTest, IsDoneOnceHoweverOftenItIsSaid) {
  Begin(2);
  Ask("a");
  Ask("a");
  Say();
  EXPECT_EQ(Number(), 2U);
  Ask("b");
  EXPECT_EQ(Number(), 3U);
}

TEST_F(RestartTest, ALaterMachine0HasBegunNothingThatIsOlderThanTheRequest) {
  Begin(2, 2, 2);
  Ask("a");
  EXPECT_TRUE(Runs());
  EXPECT_EQ(Number(), 1U);
  EXPECT_EQ(coordinator_->restarted(), "");
}

TEST_F(RestartTest, AGenerationThatStartsIsStoppedToo) {
  Begin(2);
  Ask("a");
  machines_[1].hold_spawn = true;
  Ask("b");
  ASSERT_EQ(coordinator_->phase(), CoordinatorPhase::kStarting);
  ASSERT_EQ(Number(), 3U);
  machines_[1].hold_spawn = false;
  Ask("c");
  EXPECT_TRUE(Runs());
  EXPECT_EQ(Number(), 4U);
}

TEST_F(RestartTest, WaitsForTheNextCommit) {
  Begin(2);
  Ask("a", true);
  Advance(seconds(5));
  EXPECT_EQ(Number(), 1U);
  EXPECT_EQ(coordinator_->restarted(), "");
  Commit(0);
  EXPECT_TRUE(machines_[0].commits.back().granted);
  EXPECT_EQ(Number(), 1U) << "the commit gets its final name first";
  Advance(seconds(1));
  EXPECT_EQ(Number(), 2U);
  EXPECT_EQ(coordinator_->restarted(), "a");
}

TEST_F(RestartTest, OneThatWaitsForACommitIsDoneByAFailureBefore) {
  Begin(2);
  Ask("a", true);
  Exit(1, 2, 3);
  EXPECT_EQ(coordinator_->restarted(), "a");
  Advance(seconds(1));
  EXPECT_EQ(Number(), 2U);
  Commit(0);
  Advance(seconds(2));
  EXPECT_EQ(Number(), 2U) << "it was done already";
}

TEST_F(RestartTest, OneThatIsWithdrawnIsNotDone) {
  Begin(2);
  Ask("a", true);
  desired_.restart.reset();
  Say();
  Commit(0);
  Advance(seconds(2));
  EXPECT_EQ(Number(), 1U);
}

TEST_F(RestartTest, EndsABackoff) {
  Begin(1);
  for (int i = 0; i < 3; ++i) {
    Kill(0, 0, SIGKILL);
    if (coordinator_->phase() == CoordinatorPhase::kBackoff) break;
  }
  ASSERT_EQ(coordinator_->phase(), CoordinatorPhase::kBackoff);
  Ask("a");
  EXPECT_TRUE(Runs());
  EXPECT_EQ(coordinator_->restarted(), "a");
}

TEST_F(RestartTest, AGangThatHasFinishedMeanwhileSucceeds) {
  Begin(1);
  machines_[0].hold_death = true;
  Ask("a");
  ASSERT_EQ(coordinator_->phase(), CoordinatorPhase::kStopping);
  machines_[0].hold_death = false;
  Do(0, machines_[0].member->OnAllDead(now_, coordinator_->generation()));
  Settle();
  EXPECT_EQ(Number(), 2U) << "its ranks were killed, so they have not finished";
  FinishAll();
  ASSERT_TRUE(coordinator_->verdict());
  Ask("b");
  EXPECT_EQ(coordinator_->verdict()->exit_code, 0U);
  EXPECT_EQ(coordinator_->restarted(), "a");
}

TEST_F(RestartTest, EditedCodeThatFailsBeforeItsFirstStepHoldsTheGangUntilTheNextEdit) {
  Begin(2);
  WithCode("one", true);
  Ask("a");
  ASSERT_EQ(coordinator_->history().back().code, "one");
  Exit(1, 2, 1);
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kHeld);
  EXPECT_EQ(coordinator_->counters().application_used(), 0);
  EXPECT_NE(coordinator_->Reason().find("waiting for the next edit"), std::string::npos);
  Advance(minutes(10), seconds(1));
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kHeld);
  EXPECT_FALSE(coordinator_->verdict());
  WithCode("two", true);
  EXPECT_TRUE(Runs());
  EXPECT_EQ(coordinator_->history().back().code, "two");
}

TEST_F(RestartTest, WhenNobodyEditsAnyMoreAFailureIsAFailure) {
  Begin(2);
  WithCode("one", true);
  Ask("a");
  Exit(1, 2, 1);
  ASSERT_EQ(coordinator_->phase(), CoordinatorPhase::kHeld);
  WithCode("one", false);
  ASSERT_TRUE(Runs());
  Exit(1, 2, 1);
  EXPECT_NE(coordinator_->phase(), CoordinatorPhase::kHeld);
  EXPECT_EQ(coordinator_->counters().application_used(), 1);
}

TEST_F(RestartTest, CodeThatHasDoneAStepIsChargedForItsFailures) {
  Begin(2);
  WithCode("one", true);
  Ask("a");
  RankProgress step;
  step.rank = 0;
  step.step = 1;
  Do(0, machines_[0].member->OnProgress(now_, step));
  Settle();
  Exit(1, 2, 1);
  EXPECT_EQ(coordinator_->counters().application_used(), 1);
}

TEST_F(RestartTest, CodeOfAProgramWithoutReportsHasStartedAfterAMinute) {
  Begin(2);
  WithCode("one", true);
  Ask("a");
  Advance(kShortLife, seconds(1));
  Exit(1, 2, 1);
  EXPECT_NE(coordinator_->phase(), CoordinatorPhase::kHeld);
  EXPECT_EQ(coordinator_->counters().application_used(), 1);
}

TEST_F(RestartTest, CodeOfAProgramThatReportsHasNotStartedBeforeItsFirstStep) {
  Begin(2);
  WithCode("one", true);
  Ask("a");
  RankProgress step;
  step.rank = 0;
  step.step = 1;
  Do(0, machines_[0].member->OnProgress(now_, step));
  Settle();
  WithCode("two", true);
  Ask("b");
  ASSERT_TRUE(Runs());
  Advance(kShortLife, seconds(1));
  Exit(1, 2, 1);
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kHeld);
  EXPECT_EQ(coordinator_->counters().application_used(), 0);
}

TEST_F(RestartTest, AHoldSaysWhoAsked) {
  Begin(1);
  desired_.stop = DesiredState::DesiredStop{StopReason::kRestarted, seconds(1), "alice: 2 files"};
  Say();
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kHeld);
  EXPECT_EQ(coordinator_->Reason(), "restarted on request of alice: 2 files");
  desired_.stop.reset();
  Say();
  EXPECT_TRUE(Runs());
  EXPECT_EQ(coordinator_->history().front().failure.message,
            "restarted on request of alice: 2 files");
}

TEST_F(RestartTest, TheDesiredStateSurvivesItsForm) {
  desired_.restart = DesiredState::Restart{"a", 7, true, "alice: \"x\""};
  desired_.code = DesiredState::Code{"d1", true};
  const Result<DesiredState> read = ParseDesiredState(ToJson(desired_));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(*read, desired_);
}

}  // namespace
}  // namespace lockstep::core
