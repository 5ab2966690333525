// Generations of some of the machines: who takes part is the operator's to say.
#include "core/gang/status/status_api.h"
#include "tests/core/gang/gang_fixture.h"

namespace lockstep::core {
namespace {

class MembersTest : public GangFixture {
 protected:
  MembersTest() { elastic_ = true; }

  void Say(const char* members, const char* witnesses) {
    DesiredState desired;
    desired.job_uid = "job";
    desired.epoch = ++epoch_;
    desired.members = *Members::Parse(members);
    desired.witnesses = *Members::Parse(witnesses);
    Desire(desired);
  }
  // A gang of `machines` runs in its first generation.
  void Run(uint32_t machines) {
    Begin(machines);
    const std::string all = Members::All(machines).ToString();
    Say(all.c_str(), all.c_str());
    ASSERT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
  }
  // The machine is lost for its silence.
  void Lose(uint32_t machine) {
    Cut(machine);
    Settle();
    Advance(policy_.machine_lost_after + seconds(1));
  }
  void Commit(uint32_t machine) {
    Do(machine, machines_[machine].member->OnCommit(now_, ++commits_));
    Settle();
  }
  bool Spawned(uint32_t machine) const {
    const std::vector<Spawn>& spawns = machines_[machine].spawns;
    return !spawns.empty() && spawns.back().start.generation == coordinator_->generation();
  }

 private:
  uint32_t epoch_ = 0;
  uint64_t commits_ = 0;
};

TEST_F(MembersTest, NothingBeginsBeforeItIsSaidWhoTakesPart) {
  Begin(2);
  Advance(minutes(5), seconds(1));
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kGathering);
  EXPECT_EQ(coordinator_->Reason(), "waiting for the operator to name the machines that take part");
  Say("0-1", "0-1");
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
}

TEST_F(MembersTest, AGangThatIsNotElasticNeedsNoWord) {
  elastic_ = false;
  Begin(2);
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
  EXPECT_TRUE(coordinator_->history().back().members.empty());
}

TEST_F(MembersTest, AGangThatIsNotElasticLeavesNobodyOut) {
  elastic_ = false;
  Begin(2);
  DesiredState desired;
  desired.job_uid = "job";
  desired.epoch = 1;
  desired.members = desired.witnesses = *Members::Parse("0");
  EXPECT_FALSE(coordinator_->OnDesiredState(now_, desired).ok());
  desired.members = desired.witnesses = *Members::Parse("0-1");
  EXPECT_TRUE(coordinator_->OnDesiredState(now_, desired).ok());
}

TEST_F(MembersTest, GoesOnWithoutAMachineThatIsLostOnceItIsLeftOut) {
  Run(3);
  Lose(1);
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kGathering);
  Say("0,2", "0,2");
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
  EXPECT_EQ(machines_[1].spawns.size(), 1U);
  EXPECT_EQ(coordinator_->history().back().members.ToString(), "0,2");
}

TEST_F(MembersTest, RanksFollowFromTheMachinesPlaceAmongTheMembers) {
  Run(3);
  EXPECT_EQ(machines_[2].member->first_rank(), 4U);
  Lose(1);
  Say("0,2", "0,2");
  EXPECT_EQ(machines_[2].member->first_rank(), 2U);
  EXPECT_EQ(machines_[2].spawns.back().start.members.size(), 2U);
  RankProgress progress;
  progress.rank = 3;
  progress.step = 7;
  Do(2, machines_[2].member->OnProgress(now_, progress));
  Advance(seconds(1));
  ASSERT_TRUE(coordinator_->progress().contains(3));
  Exit(2, 3, 5);
  EXPECT_EQ(coordinator_->last_failure().machine, 2);
  EXPECT_EQ(coordinator_->last_failure().rank, 3);
}

TEST_F(MembersTest, TheJobIsDoneWhenTheMembersRanksAre) {
  Run(3);
  Lose(1);
  Say("0,2", "0,2");
  for (const uint32_t rank : {0U, 1U}) Exit(0, rank, 0);
  for (const uint32_t rank : {2U, 3U}) Exit(2, rank, 0);
  ASSERT_TRUE(coordinator_->verdict());
  EXPECT_EQ(coordinator_->verdict()->exit_code, 0U);
  ASSERT_TRUE(coordinator_exit_);
  EXPECT_EQ(coordinator_exit_->code, 0);
}

TEST_F(MembersTest, TheSilenceOfWhoIsLeftOutStopsNothing) {
  Run(2);
  Lose(1);
  Say("0", "0");
  Connect(1);
  Settle();
  const Generation before = coordinator_->generation();
  Lose(1);
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
  EXPECT_EQ(coordinator_->generation(), before);
}

TEST_F(MembersTest, WhoIsLeftOutMayLeave) {
  Run(2);
  Lose(1);
  Say("0", "0");
  Connect(1);
  Settle();
  const Generation before = coordinator_->generation();
  Do(1, machines_[1].member->OnTerminate(now_, seconds(5)));
  Settle();
  EXPECT_EQ(coordinator_->generation(), before);
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
  ASSERT_TRUE(machines_[1].exit);
  EXPECT_EQ(machines_[1].exit->code, 143);
}

TEST_F(MembersTest, GrowsAtACommitAndNotBefore) {
  Run(3);
  Lose(1);
  Say("0,2", "0,2");
  Join(1, 2);
  Settle();
  Say("0-2", "0,2");
  const Generation small = coordinator_->generation();
  Advance(minutes(2), seconds(1));
  EXPECT_EQ(coordinator_->generation(), small);
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
  Commit(0);
  Advance(seconds(1));
  ASSERT_FALSE(machines_[0].commits.empty());
  EXPECT_TRUE(machines_[0].commits.back().granted);
  EXPECT_GT(coordinator_->generation(), small);
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
  EXPECT_TRUE(Spawned(1));
  EXPECT_EQ(coordinator_->history()[1].stop_reason, StopReason::kScaled);
  EXPECT_EQ(coordinator_->counters().application_used(), 0U);
}

TEST_F(MembersTest, DoesNotStopToGrowByAMachineThatIsGone) {
  Run(3);
  Lose(1);
  Say("0,2", "0,2");
  Join(1, 2);
  Settle();
  Say("0-2", "0,2");
  Lose(1);
  const Generation small = coordinator_->generation();
  Commit(0);
  Advance(seconds(1));
  EXPECT_EQ(coordinator_->generation(), small);
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
}

TEST_F(MembersTest, RanksOfWhoIsLeftOutAreDeadBeforeTheNextGenerationBegins) {
  Run(3);
  // Its next attempt says HELLO while its ranks may still be alive behind a partition, and is gone.
  Cut(1);
  Join(1, 2, 2, /*predecessor_dead=*/false);
  Settle();
  Cut(1);
  Say("0,2", "0,2");
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kFencing);
  Advance(policy_.machine_lost_after + seconds(1));
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
}

TEST_F(MembersTest, AMachineThatMayHaveBeenLeftOutIsNoWitnessOfAnEarlierGangsEnd) {
  CoordinatorConfig config;
  config.job_uid = "job";
  config.attempt = 3;
  config.machines = 3;
  config.processes = 2;
  config.predecessor_dead = false;
  config.elastic = true;
  machines_.resize(3);
  coordinator_ = std::make_unique<Coordinator>(config, now_);
  // Machine 1 has heard of no coordinator for long; but that one may not have needed it.
  Join(0, 3, 2, /*predecessor_dead=*/false);
  Join(1, 1);
  Join(2, 3, 2, /*predecessor_dead=*/false);
  Settle();
  Say("0-2", "0,2");
  Advance(minutes(10), seconds(1));
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kFencing);
  Say("0-2", "0-2");
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
}

TEST_F(MembersTest, MembersWithoutMachine0AreRefused) {
  Run(3);
  for (const char* members : {"1-2", "0-3"}) {
    DesiredState desired;
    desired.job_uid = "job";
    desired.epoch = 9;
    desired.members = *Members::Parse(members);
    EXPECT_FALSE(coordinator_->OnDesiredState(now_, desired).ok()) << members;
  }
}

TEST_F(MembersTest, AreRangesInTheBodyOfPutGangAndInStart) {
  DesiredState desired;
  desired.job_uid = "job";
  desired.members = *Members::Parse("0-5,7");
  desired.witnesses = *Members::Parse("0");
  const std::string json = ToJson(desired);
  EXPECT_NE(json.find(R"("members":"0-5,7","witnesses":"0")"), std::string::npos) << json;
  const Result<DesiredState> read = ParseDesiredState(json);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(*read, desired);
  EXPECT_EQ(ToJson(DesiredState{}).find("members"), std::string::npos);
  Start start;
  start.members = desired.members;
  const Result<Message> decoded = Decode(Encode(start));
  ASSERT_TRUE(decoded.ok()) << decoded.error().message;
  EXPECT_EQ(std::get<Start>(*decoded).members, desired.members);
}

}  // namespace
}  // namespace lockstep::core
