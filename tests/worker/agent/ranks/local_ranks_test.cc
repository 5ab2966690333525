// Real processes of /bin/sh as the ranks of one machine.
#include "worker/agent/ranks/local_ranks.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "tests/base/loop_test_base.h"
#include "tests/worker/topology/machine_builder.h"
#include "worker/agent/processes/descendants.h"

namespace lockstep::agent::local_ranks_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr core::Generation kFirst{1, 1};
constexpr core::Generation kSecond{1, 2};

// The second of two machines, with two ranks: 2 and 3.
class LocalRanksTest : public LoopTest, public LocalRanks::Owner {
 protected:
  LocalRanksTest()
      : spawner_(std::move(*Spawner::Create())),
        table_(std::move(*LiveTable::Create())),
        null_(open("/dev/null", O_WRONLY | O_CLOEXEC)),
        console_(loop(), null_.get()),
        logs_(loop(), {.machine = 1}, &console_, nullptr) {
    std::string pattern = testing::TempDir() + "/ranks-XXXXXX";
    config_.run_dir = mkdtemp(pattern.data());
    config_.job_uid = "uid";
    config_.job.metadata.name = "gpt";
    config_.machine = 1;
    config_.job.spec.num_machines = 2;
    config_.job.spec.processes_per_machine = 2;
    config_.job.spec.topology.bind = core::Bind::kNone;
    config_.job.spec.working_dir = config_.run_dir;
  }
  // A child that is left would be the next test's. One that dies leaves its own children to us.
  ~LocalRanksTest() override {
    ranks_.reset();
    do {
      for (const pid_t child : ChildrenOf(getpid())) kill(child, SIGKILL);
    } while (waitpid(-1, nullptr, 0) > 0);
    std::filesystem::remove_all(config_.run_dir);
  }

  // What each rank runs; "$$$$" is the shell's "$$".
  void Make(const std::string& script) { Make(std::vector<std::string>{"/bin/sh", "-c", script}); }
  void Make(std::vector<std::string> command) {
    config_.job.spec.command = std::move(command);
    ranks_ = std::make_unique<LocalRanks>(loop(), spawner_.get(), table_.get(), &logs_, &config_,
                                          topology::MakeMachine().Node(0, 2), "/nowhere.sock", this,
                                          [this](const std::string& line) { log_ += line + "\n"; });
  }
  void Start(core::Generation generation, const std::vector<uint32_t>& kept = {},
             Time lease_end = kNever) {
    table_->SetLeaseEnd(lease_end);
    core::Start start;
    start.generation = generation;
    start.master_address = "10.0.0.1";
    start.master_port = 29400 + generation.n;
    ranks_->Start(start, lease_end, kept);
  }
  void StopAtOnce(core::Generation generation, const std::set<uint32_t>& spared = {}) {
    ranks_->Stop(generation, BootTime(), spared);
    ASSERT_TRUE(RunUntil([&] { return !all_dead_.empty() && all_dead_.back() == generation; }));
  }
  bool Written(const std::string& file) const {
    return std::filesystem::exists(config_.run_dir + "/" + file);
  }
  std::string Text(const std::string& file) const {
    const Result<std::string> text = ReadFile(config_.run_dir + "/" + file, 1 << 16);
    return text.ok() ? *text : "";
  }
  bool Lives(size_t local_rank) const {
    const pid_t pid = ranks_->views()[local_rank].pid;
    return pid != 0 && kill(pid, 0) == 0;
  }

  void OnSpawned(core::Generation generation, bool warm) override {
    EXPECT_FALSE(warm);
    spawned_.push_back(generation);
  }
  void OnBound(core::Generation, core::Binding, std::string) override {}
  void OnParked(core::Generation, core::Parked) override {}
  void OnDied(core::Generation generation, core::Failure death) override {
    died_.emplace_back(generation, std::move(death));
  }
  void OnFinished(core::Generation, uint32_t rank, bool by_itself) override {
    EXPECT_TRUE(by_itself);
    finished_.push_back(rank);
  }
  void OnRan(core::Ran ran) override { ran_.push_back(std::move(ran)); }
  void OnAllDead(core::Generation generation) override { all_dead_.push_back(generation); }
  void OnTakenIn(uint32_t rank, const Json& changes) override {
    taken_in_.emplace_back(rank, changes);
  }
  void OnUnkillable(core::Generation) override { ADD_FAILURE() << log_; }
  void OnKept() override {}
  void OnFence(core::Generation, std::vector<core::TableEntry>) override {}
  Result<std::string> Secret(core::Generation) override { return std::string(); }

  core::AgentConfig config_;
  std::unique_ptr<Spawner> spawner_;
  std::unique_ptr<LiveTable> table_;
  UniqueFd null_;
  Console console_;
  LogPump logs_;
  std::string log_;
  std::vector<core::Generation> spawned_;
  std::vector<std::pair<core::Generation, core::Failure>> died_;
  std::vector<uint32_t> finished_;
  std::vector<core::Ran> ran_;
  std::vector<core::Generation> all_dead_;
  std::vector<std::pair<uint32_t, Json>> taken_in_;
  std::unique_ptr<LocalRanks> ranks_;
};

TEST_F(LocalRanksTest, EachRankGetsItsPlaceInTheGang) {
  Make("echo $RANK $LOCAL_RANK $WORLD_SIZE $MASTER_ADDR:$MASTER_PORT > $RANK.told");
  Start(kFirst);
  ASSERT_TRUE(RunUntil([&] { return finished_.size() == 2; }));
  EXPECT_THAT(spawned_, ElementsAre(kFirst));
  EXPECT_EQ(Text("2.told"), "2 0 4 10.0.0.1:29401\n");
  EXPECT_EQ(Text("3.told"), "3 1 4 10.0.0.1:29401\n");
  EXPECT_THAT(died_, IsEmpty());
}

TEST_F(LocalRanksTest, ARankThatDiesIsReportedWithItsCauseWhileTheOtherRunsOn) {
  Make("if [ $RANK = 3 ]; then echo 'no space' >&2; exit 7; fi; exec sleep 1000");
  Start(kFirst);
  ASSERT_TRUE(RunUntil([&] { return !died_.empty(); }));
  const auto& [generation, death] = died_[0];
  EXPECT_EQ(generation, kFirst);
  EXPECT_EQ(death.rank, 3);
  EXPECT_EQ(death.cause, core::Cause::kProcessExit);
  EXPECT_EQ(death.exit_code, 7);
  EXPECT_TRUE(death.by_itself);
  EXPECT_THAT(death.stderr_tail, HasSubstr("no space"));
  EXPECT_TRUE(Lives(0));
  EXPECT_EQ(ranks_->views()[1].pid, 0);
  EXPECT_TRUE(ranks_->busy());
  StopAtOnce(kFirst);
  EXPECT_FALSE(ranks_->busy());
}

TEST_F(LocalRanksTest, ARankThatIsStoppedDidNotDieByItself) {
  Make("exec sleep 1000");
  Start(kFirst);
  ASSERT_TRUE(RunUntil([&] { return !spawned_.empty(); }));
  StopAtOnce(kFirst);
  ASSERT_EQ(died_.size(), 2U);
  for (const auto& [generation, death] : died_) {
    EXPECT_FALSE(death.by_itself);
    EXPECT_EQ(death.signal, SIGKILL);
  }
}

TEST_F(LocalRanksTest, ACommandThatIsMissingIsReportedAfterTheCall) {
  Make(std::vector<std::string>{"no-such-program"});
  Start(kFirst);
  EXPECT_THAT(died_, IsEmpty());
  ASSERT_TRUE(RunUntil([&] { return !died_.empty(); }));
  EXPECT_EQ(died_[0].second.cause, core::Cause::kCommandNotFound);
  EXPECT_EQ(died_[0].second.rank, 2);
  EXPECT_EQ(died_[0].second.exit_code, 127);
  EXPECT_THAT(log_, HasSubstr("no-such-program"));
}

TEST_F(LocalRanksTest, NoRankStartsOnceTheLeaseHasEnded) {
  Make("touch $RANK.ran");
  Start(kFirst, {}, BootTime());
  Settle();
  EXPECT_THAT(spawned_, IsEmpty());
  EXPECT_EQ(ranks_->views()[0].pid, 0);
  EXPECT_FALSE(ranks_->busy());
}

TEST_F(LocalRanksTest, ARankIsStartedAgainAloneAfterItsOrphansAreGone) {
  Make(
      "if [ $RANK = 3 ] && ! [ -e again ]; then (exec sleep 1000) & echo $! > orphan; touch again; "
      "exit 1; fi; exec sleep 1000");
  Start(kFirst);
  ASSERT_TRUE(RunUntil([&] { return !died_.empty(); }));
  const pid_t other = ranks_->views()[0].pid;
  ranks_->StartAgain(kFirst, 3, kNever);
  ASSERT_TRUE(RunUntil([&] { return ranks_->views()[1].pid != 0; }));
  EXPECT_THAT(log_, HasSubstr("rank 3 is started again, alone"));
  EXPECT_EQ(ranks_->views()[0].pid, other);
  EXPECT_FALSE(std::filesystem::exists("/proc/" + std::to_string(std::stoi(Text("orphan")))));
}

TEST_F(LocalRanksTest, ARankThatIsSparedIsToldWhatChanges) {
  Make("exec sleep 1000");
  Start(kFirst);
  ASSERT_TRUE(RunUntil([&] { return !spawned_.empty(); }));
  const pid_t kept = ranks_->views()[1].pid;
  ASSERT_TRUE(ranks_->CanKeep(3));
  StopAtOnce(kFirst, {3});
  EXPECT_EQ(ranks_->views()[0].pid, 0);
  Start(kSecond, {3});
  ASSERT_TRUE(RunUntil([&] { return spawned_.size() == 2; }));
  EXPECT_EQ(ranks_->views()[1].pid, kept);
  EXPECT_TRUE(Lives(0));
  ASSERT_EQ(taken_in_.size(), 1U);
  EXPECT_EQ(taken_in_[0].first, 3U);
  EXPECT_EQ(taken_in_[0].second["MASTER_PORT"], "29402");
  EXPECT_FALSE(taken_in_[0].second.contains("RANK"));
}

TEST_F(LocalRanksTest, ACrashAfterTheProgramHasEndedIsNoFailure) {
  Make("while ! [ -e go ]; do sleep 0.01; done; kill -SEGV $$$$");
  Start(kFirst);
  ASSERT_TRUE(RunUntil([&] { return !spawned_.empty(); }));
  ranks_->OnDone(
      {.rank = 3, .id = 1, .generation = kFirst.ToString(), .pid = ranks_->views()[1].pid});
  ASSERT_TRUE(WriteFileAtomically(config_.run_dir + "/go", "").ok());
  ASSERT_TRUE(RunUntil([&] { return !died_.empty() && !finished_.empty(); }));
  EXPECT_THAT(finished_, ElementsAre(3U));
  EXPECT_EQ(died_[0].second.rank, 2);
  EXPECT_EQ(died_[0].second.signal, SIGSEGV);
}

TEST_F(LocalRanksTest, ALaunchersCommandsRunOneAfterTheOther) {
  config_.job.spec.framework = core::Framework::kMpi;
  Make("touch $RANK.ran");
  Start(kFirst);
  ASSERT_TRUE(RunUntil([&] { return !spawned_.empty(); }));
  ranks_->Run({.generation = kFirst, .id = 1, .machine = 1, .command = "touch one"});
  ranks_->Run({.generation = kFirst, .id = 2, .machine = 1, .command = "ls one && exit 3"});
  ASSERT_TRUE(RunUntil([&] { return ran_.size() == 2; }));
  EXPECT_EQ(ran_[0].id, 1U);
  EXPECT_EQ(ran_[0].exit_code, 0U);
  EXPECT_EQ(ran_[1].id, 2U);
  EXPECT_EQ(ran_[1].exit_code, 3U);
  EXPECT_FALSE(Written("2.ran"));  // the launcher starts all ranks
  ASSERT_EQ(died_.size(), 1U);
  EXPECT_EQ(died_[0].second.exit_code, 3);
}

TEST_F(LocalRanksTest, ARankThatSaysWhyItFailsHasNoTimeIfTheCauseIsSure) {
  Make(
      "echo 'Traceback (most recent call last):' >&2; until [ -e go ]; do sleep 0.01; done; "
      "touch $RANK.ended");
  Start(kFirst);
  ASSERT_TRUE(
      RunUntil([&] { return logs_.WordsBegan(2) != kNever && logs_.WordsBegan(3) != kNever; }));
  ranks_->Stop(kFirst, BootTime(), {}, true);
  ASSERT_TRUE(WriteFileAtomically(config_.run_dir + "/go", "").ok());
  ASSERT_TRUE(RunUntil([&] { return !all_dead_.empty(); }));
  EXPECT_FALSE(Written("2.ended") || Written("3.ended"));
}

TEST_F(LocalRanksTest, AStopOfAGenerationThatNeverBeganIsAnsweredAfterTheCall) {
  Make("exec sleep 1000");
  ranks_->Stop(kFirst, BootTime());
  EXPECT_THAT(all_dead_, IsEmpty());
  ASSERT_TRUE(RunUntil([&] { return !all_dead_.empty(); }));
  EXPECT_THAT(all_dead_, ElementsAre(kFirst));
}

}  // namespace
}  // namespace lockstep::agent::local_ranks_test
