#include <gmock/gmock.h>

#include <limits>

#include "core/exit_codes.h"
#include "core/gang/status/status_api.h"
#include "tests/core/gang/gang_fixture.h"

namespace lockstep::core {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

class CoordinatorPreflightTest : public GangFixture {
 protected:
  CoordinatorPreflightTest() { preflight_.emplace(); }

  // Machines whose figures are to be changed before the first measurement.
  void BeginHeld(uint32_t machines) {
    machines_.resize(machines);
    CoordinatorConfig config;
    config.job_uid = "job";
    config.machines = machines;
    config.processes = 2;
    config.preflight = preflight_;
    coordinator_ = std::make_unique<Coordinator>(config, now_);
    for (uint32_t i = 0; i < machines; ++i) JoinHeld(i, 1);
  }
  // One whose measurements the test answers.
  void JoinHeld(uint32_t index, uint32_t attempt) {
    Join(index, attempt);
    machines_[index].hold_measure = true;
    Settle();
  }
  // Each of them answers what it was asked last.
  void Answer(const std::vector<uint32_t>& machines) {
    for (const uint32_t machine : machines) AnswerMeasure(machine);
    Settle();
  }
  void AnswerAll() {
    for (int step = 0; step < 2; ++step) Answer({0, 1, 2, 3});
  }
  std::string SlowOf(uint32_t machine) {
    return StatusOf(*coordinator_, now_, {}).machines[machine].slow;
  }
  PreflightState State() { return coordinator_->preflight()->state; }
};

TEST_F(CoordinatorPreflightTest, NoRankRunsBeforeAllMachinesWereMeasured) {
  BeginHeld(4);
  EXPECT_EQ(State(), PreflightState::kMeasuring);
  EXPECT_THAT(coordinator_->Reason(), HasSubstr("measured before ranks run"));
  Answer({0, 1, 2, 3});
  EXPECT_THAT(machines_[3].measures, SizeIs(2));
  EXPECT_THAT(machines_[3].measures.back().partners, SizeIs(3));
  EXPECT_TRUE(prepared_.empty());
  Answer({0, 1, 2, 3});
  EXPECT_EQ(State(), PreflightState::kPassed);
  EXPECT_THAT(prepared_, ElementsAre(Generation{1, 1}));
  EXPECT_EQ(coordinator_->preflight()->typical,
            "products 10 GFLOP/s, memory 20 GB/s, disk 30 GB/s, link 5 GB/s");
}

TEST_F(CoordinatorPreflightTest, WithoutItNobodyIsMeasured) {
  preflight_.reset();
  Begin(2);
  EXPECT_TRUE(machines_[0].measures.empty());
  EXPECT_FALSE(coordinator_->preflight());
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
}

TEST_F(CoordinatorPreflightTest, OfAPairEachIsToldWhereTheOtherIsAndInTheSameOrder) {
  BeginHeld(2);
  Answer({0, 1});
  const std::vector<Partner>& partners = machines_[0].measures.back().partners;
  ASSERT_THAT(partners, SizeIs(1));
  EXPECT_EQ(partners[0].machine, 1U);
  EXPECT_EQ(partners[0].address, "machine-1");
  EXPECT_EQ(partners[0].token, "token");
  EXPECT_FALSE(machines_[0].measures.back().alone);
}

TEST_F(CoordinatorPreflightTest, AMachineWithASlowLinkIsReplacedAndTheNextOneAloneIsMeasured) {
  BeginHeld(4);
  machines_[2].reach = 0.1;
  AnswerAll();
  EXPECT_TRUE(prepared_.empty());
  EXPECT_THAT(SlowOf(2), HasSubstr("link 0.1 GB/s, where the median is 5 GB/s"));
  EXPECT_EQ(SlowOf(1), "");
  EXPECT_TRUE(StatusOf(*coordinator_, now_, {}).machines[2].replace);
  EXPECT_THAT(log_, HasSubstr("machine 2 is slow, and to be replaced"));
  JoinHeld(2, 2);
  EXPECT_TRUE(machines_[2].measures.back().alone);
  EXPECT_FALSE(machines_[1].measures.back().alone) << "its own figures are known";
  AnswerAll();
  EXPECT_EQ(State(), PreflightState::kPassed);
  EXPECT_THAT(prepared_, SizeIs(1));
  ASSERT_THAT(coordinator_->preflight()->slow, SizeIs(1));
  EXPECT_TRUE(coordinator_->preflight()->slow[0].replaced);
}

TEST_F(CoordinatorPreflightTest, ASlowCoreIsFoundToo) {
  BeginHeld(4);
  machines_[1].figures.products = 6.9;
  AnswerAll();
  EXPECT_EQ(SlowOf(1), "products 6.9 GFLOP/s, where the median is 10 GFLOP/s");
}

TEST_F(CoordinatorPreflightTest, TheThirdSlowMachineIsKeptAndSaid) {
  BeginHeld(4);
  for (uint32_t attempt = 1; attempt <= 3; ++attempt) {
    if (attempt > 1) JoinHeld(3, attempt);
    machines_[3].figures.memory = 1;
    AnswerAll();
  }
  EXPECT_THAT(prepared_, SizeIs(1));
  EXPECT_EQ(State(), PreflightState::kSlow);
  EXPECT_FALSE(coordinator_->preflight()->slow.back().replaced);
  EXPECT_THAT(log_, HasSubstr("the job continues with it"));
}

TEST_F(CoordinatorPreflightTest, BelowTheUsersLeastTheJobFailsInsteadWithASentence) {
  preflight_->least.memory = 5;
  BeginHeld(4);
  for (uint32_t attempt = 1; attempt <= 3; ++attempt) {
    if (attempt > 1) JoinHeld(3, attempt);
    machines_[3].figures.memory = 1;
    AnswerAll();
  }
  EXPECT_TRUE(prepared_.empty());
  ASSERT_TRUE(coordinator_->verdict());
  EXPECT_EQ(coordinator_->verdict()->exit_code, static_cast<uint32_t>(kExitConfiguration));
  EXPECT_THAT(coordinator_->last_failure().message,
              HasSubstr("machine 3 is slower than spec.preflight allows"));
}

TEST_F(CoordinatorPreflightTest, Machine0IsReplacedOnlyInItsFirstAttempt) {
  BeginHeld(4);
  machines_[0].figures.products = 1;
  AnswerAll();
  EXPECT_NE(SlowOf(0), "");

  machines_.clear();
  preflight_.emplace();
  Begin(4, 2, 2);
  machines_[0].hold_measure = true;
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
}

TEST_F(CoordinatorPreflightTest, AMachineThatDoesNotAnswerInTimeIsNamed) {
  BeginHeld(4);
  Answer({0, 1, 2});
  Advance(kMeasureAlonePatience);
  EXPECT_THAT(machines_[0].measures.back().partners, SizeIs(2)) << "the others go on";
  Answer({0, 1, 2});
  EXPECT_EQ(SlowOf(3), "it did not answer in time");
}

TEST_F(CoordinatorPreflightTest, WhereHalfOfThemSayNothingNoMachineIsBlamed) {
  BeginHeld(4);
  Answer({0, 1});
  Advance(kMeasureAlonePatience);
  Answer({0, 1});
  EXPECT_EQ(State(), PreflightState::kPassed);
  EXPECT_THAT(prepared_, SizeIs(1));
}

TEST_F(CoordinatorPreflightTest, AnAgentThatConnectsAgainIsAskedAgain) {
  BeginHeld(4);
  Answer({0, 1, 2});
  const uint64_t first = machines_[3].measures.back().id;
  Cut(3);
  Connect(3);
  Settle();
  EXPECT_GT(machines_[3].measures.back().id, first);
  AnswerAll();
  EXPECT_THAT(prepared_, SizeIs(1));
}

TEST_F(CoordinatorPreflightTest, ARoundThatWaitsForALostMachineIsGivenUpAndWakesNobody) {
  BeginHeld(4);
  Cut(3);
  Advance(kMeasureAlonePatience + seconds(1));
  EXPECT_EQ(State(), PreflightState::kWaiting);
  EXPECT_GT(coordinator_->NextWake(), now_);
  Connect(3);
  Settle();
  AnswerAll();
  EXPECT_THAT(prepared_, SizeIs(1));
}

TEST_F(CoordinatorPreflightTest, ARestartInPlaceMeasuresNobodyAgain) {
  Begin(4);
  const size_t measured = machines_[1].measures.size();
  Kill(1, 2, 9);
  Advance(seconds(5));
  EXPECT_EQ(coordinator_->generation(), (Generation{1, 2}));
  EXPECT_THAT(machines_[1].measures, SizeIs(measured));
}

TEST_F(CoordinatorPreflightTest, WhoTakesAnothersPlaceWhileTheFolderIsMadeIsMeasuredFirst) {
  prepare_hangs_ = true;
  BeginHeld(4);
  AnswerAll();
  ASSERT_EQ(coordinator_->phase(), CoordinatorPhase::kPreparing);
  Cut(3);
  JoinHeld(3, 2);
  Do(coordinator_->OnPrepared(now_, {prepared_.back(), "127.0.0.1", 29500, "", ""}));
  Settle();
  for (const Machine& machine : machines_) EXPECT_THAT(machine.spawns, SizeIs(0));
  EXPECT_EQ(State(), PreflightState::kMeasuring);
  prepare_hangs_ = false;
  AnswerAll();
  for (const Machine& machine : machines_) EXPECT_THAT(machine.spawns, SizeIs(1));
}

// Attempts are given out twice after an etcd was restored.
TEST_F(CoordinatorPreflightTest, AnotherAgentOfTheSameAttemptIsMeasuredToo) {
  Begin(4);
  ASSERT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
  Cut(1);
  JoinHeld(1, 1);
  Advance(seconds(16));  // the first one's lease
  EXPECT_EQ(State(), PreflightState::kMeasuring);
  EXPECT_THAT(machines_[1].spawns, SizeIs(0));
  Answer({1});
  Answer({1});
  EXPECT_THAT(machines_[1].spawns, SizeIs(1));
}

TEST_F(CoordinatorPreflightTest, AnotherAgentOfAnAttemptThatNeverRanIsMeasuredToo) {
  prepare_hangs_ = true;
  BeginHeld(4);
  AnswerAll();
  ASSERT_EQ(coordinator_->phase(), CoordinatorPhase::kPreparing);
  Cut(3);
  JoinHeld(3, 1);
  Do(coordinator_->OnPrepared(now_, {prepared_.back(), "127.0.0.1", 29500, "", ""}));
  Settle();
  for (const Machine& machine : machines_) EXPECT_THAT(machine.spawns, SizeIs(0));
  EXPECT_EQ(State(), PreflightState::kMeasuring);
}

TEST_F(CoordinatorPreflightTest, AMachineWithABrokenGpuIsReplacedAndTheGpuNamed) {
  preflight_->gpus = true;
  BeginHeld(4);
  for (Machine& machine : machines_) machine.gpus = {{0, 600, {}, ""}};
  machines_[2].gpus[0].fault = "rows of its memory wait for a reset to be remapped";
  Answer({0, 1, 2});
  Advance(kMeasureAlonePatience);
  EXPECT_EQ(State(), PreflightState::kMeasuring) << "GPUs take longer";
  Answer({3});
  Answer({0, 1, 2, 3});
  EXPECT_EQ(SlowOf(2), "GPU 0: rows of its memory wait for a reset to be remapped");
  EXPECT_THAT(log_, HasSubstr("machine 2 is slow, and to be replaced: GPU 0: rows"));
  EXPECT_THAT(coordinator_->preflight()->typical, HasSubstr("GPU products 600 TFLOP/s"));
  JoinHeld(2, 2);
  machines_[2].gpus = {{0, 600, {}, ""}};
  AnswerAll();
  EXPECT_EQ(State(), PreflightState::kPassed);
}

TEST_F(CoordinatorPreflightTest, NumbersThatAreNoneAreNotBelieved) {
  BeginHeld(4);
  machines_[1].figures.products = std::numeric_limits<double>::quiet_NaN();
  machines_[1].gpus.resize(1);
  machines_[1].gpus[0].products = std::numeric_limits<double>::quiet_NaN();
  machines_[1].reach = std::numeric_limits<double>::infinity();
  AnswerAll();
  EXPECT_THAT(prepared_, SizeIs(1));
  EXPECT_EQ(SlowOf(1), "");
}

}  // namespace
}  // namespace lockstep::core
