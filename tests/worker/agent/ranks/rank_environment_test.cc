#include "worker/agent/ranks/rank_environment.h"

#include <gmock/gmock.h>
#include <stdlib.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tests/worker/agent/processes/process_test_base.h"
#include "tests/worker/agent/services/mpi_recorder.h"
#include "tests/worker/topology/machine_builder.h"

namespace lockstep::agent::rank_environment_test {
namespace {

using testing::Contains;
using testing::IsSupersetOf;
using testing::Not;
using testing::StartsWith;

constexpr core::Generation kFirst{1, 1};
constexpr core::Generation kSecond{1, 2};

// The second of two machines, with two ranks: 2 and 3.
class RankEnvironmentTest : public ProcessTest, public MpiRecorder {
 protected:
  RankEnvironmentTest() {
    std::string pattern = testing::TempDir() + "/environment-XXXXXX";
    config_.run_dir = mkdtemp(pattern.data());
    config_.job_uid = "uid";
    config_.job.metadata.name = "gpt";
    config_.machine = 1;
    config_.job.spec.num_machines = 2;
    config_.job.spec.processes_per_machine = 2;
    config_.job.spec.command = {"/bin/sh", "-c", "exit"};
    setenv("OF_THE_AGENT", "1", 1);
  }
  ~RankEnvironmentTest() override {
    unsetenv("OF_THE_AGENT");
    std::filesystem::remove_all(config_.run_dir);
  }

  void SetUp() override {
    bindings_.emplace(
        loop(), &config_, topology::MakeMachine().Node(0, 4), none_, &views_,
        [](core::Binding, const std::string&) {}, log_);
    temporary_.emplace(loop(), config_.run_dir + "/tmp", log_);
    mpi_.emplace(loop(), spawner_.get(), &processes_, config_, this, log_);
    environment_.emplace(&config_, "/run/agent.sock", &*bindings_, &*temporary_, &*mpi_);
  }
  static core::Start StartOf(core::Generation generation) {
    core::Start start;
    start.generation = generation;
    start.master_address = "10.0.0.1";
    start.master_port = 29400 + generation.n;
    return start;
  }

  LogFn log_ = [](const std::string&) {};
  core::AgentConfig config_;
  std::vector<std::string> none_;
  std::vector<RankView> views_;
  std::optional<RankBindings> bindings_;
  std::optional<TemporaryFolders> temporary_;
  std::optional<MpiServices> mpi_;
  std::optional<RankEnvironment> environment_;
};

TEST_F(RankEnvironmentTest, ARankHasItsPlaceAndWhatTheAgentHas) {
  environment_->BeginGeneration(StartOf(kFirst));
  EXPECT_EQ(environment_->RankOf(1), 3U);
  const SpawnRequest request = environment_->RequestFor(1);
  EXPECT_EQ(request.argv.front(), "/bin/sh");
  EXPECT_THAT(request.env,
              IsSupersetOf({"RANK=3", "LOCAL_RANK=1", "WORLD_SIZE=4", "MASTER_ADDR=10.0.0.1",
                            "MASTER_PORT=29401", "OF_THE_AGENT=1", "OMP_NUM_THREADS=2",
                            "LOCKSTEP_SOCKET=/run/agent.sock"}));
}

TEST_F(RankEnvironmentTest, AGenerationOfFewerMembersIsASmallerWorld) {
  core::Start start = StartOf(kFirst);
  start.members = core::Members::Of({1});
  environment_->BeginGeneration(start);
  EXPECT_EQ(environment_->RankOf(0), 0U);
  EXPECT_THAT(environment_->RequestFor(0).env, IsSupersetOf({"RANK=0", "WORLD_SIZE=2"}));
}

TEST_F(RankEnvironmentTest, ARankThatLivesOnIsToldWhatDiffers) {
  environment_->BeginGeneration(StartOf(kFirst));
  std::vector<std::string> known = environment_->RequestFor(0).env;
  known.emplace_back("GONE=1");
  environment_->BeginGeneration(StartOf(kSecond));
  const Json changes = environment_->ChangesSince(known, 0);
  EXPECT_EQ(changes["MASTER_PORT"], "29402");
  EXPECT_EQ(changes["LOCKSTEP_GENERATION"], "1-2");
  EXPECT_TRUE(changes["GONE"].is_null());
  EXPECT_FALSE(changes.contains("RANK"));
}

TEST_F(RankEnvironmentTest, TheMachinesOwnEnvironmentHasNothingOfARank) {
  const std::vector<std::string> all = environment_->OfMachine();
  EXPECT_THAT(all, Contains("OF_THE_AGENT=1"));
  for (const char* name : {"RANK=", "LOCAL_RANK=", "MASTER_ADDR=", "LOCKSTEP_"}) {
    EXPECT_THAT(all, Not(Contains(StartsWith(name))));
  }
}

TEST_F(RankEnvironmentTest, AProgramThatIsNowhereIsNotFound) {
  SpawnRequest request = environment_->RequestFor(0);
  EXPECT_FALSE(RankEnvironment::SetPath(&request));
  EXPECT_EQ(request.path, "/bin/sh");
  request.argv = {"no-such-program"};
  const std::optional<SpawnFailure> failure = RankEnvironment::SetPath(&request);
  ASSERT_TRUE(failure);
  EXPECT_TRUE(failure->not_found());
}

}  // namespace
}  // namespace lockstep::agent::rank_environment_test
