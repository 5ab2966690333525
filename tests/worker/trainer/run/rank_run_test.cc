// Whole runs of one or two ranks in this process, on a model of a few thousand numbers.
#include "worker/trainer/run/rank_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/net/free_port.h"
#include "base/text/json.h"
#include "core/exit_codes.h"

namespace lockstep::trainer::rank_run_test {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::SizeIs;

class RankRunTest : public testing::Test {
 protected:
  RankRunTest() {
    std::string pattern = testing::TempDir() + "rank-run-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    std::ofstream text(folder_ / "text");
    for (int i = 0; i < 2000; ++i) text << "the ranks of a gang start and end together. ";
    text.close();
    core::Trainer& job = options_.job;
    job.model_shape = core::ModelShape{.layers = 1, .heads = 2, .width = 16, .vocabulary = 128};
    job.data = {folder_ / "text"};
    job.steps = 8;
    job.global_batch_size = 4;
    job.sequence_length = 16;
    job.learning_rate = 1e-2;
    job.device = core::Device::kCpu;
    options_.threads = 1;
    options_.tensorboard = "none";
  }
  ~RankRunTest() override {
    for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"}) {
      unsetenv(name);
    }
    fs::remove_all(folder_);
  }

  TrainOptions Options(const std::string& name) const {
    TrainOptions options = options_;
    options.metrics = folder_ / (name + ".metrics");
    options.checkpoint_dir = folder_ / (name + ".checkpoints");
    return options;
  }
  // Alone, as Train() does without an agent.
  Result<int> Run(const TrainOptions& options) {
    Result<trainer::Setup> setup = trainer::Setup::Make(options.job, nullptr);
    if (!setup.ok()) return setup.error();
    RankRun run(options, Environment{}, std::move(*setup), stop_, nullptr, std::nullopt);
    return run.Go();
  }
  // Of each step in the run's metrics.
  std::vector<double> Losses(const std::string& name) const {
    std::vector<double> losses;
    std::ifstream file(folder_ / (name + ".metrics"));
    for (std::string line; std::getline(file, line);) {
      const lockstep::Json record = lockstep::Json::parse(line);
      EXPECT_EQ(record["step"], losses.size() + 1);
      losses.push_back(record["loss"]);
    }
    return losses;
  }
  std::vector<std::string> Checkpoints(const std::string& name) const {
    std::vector<std::string> names;
    for (const auto& each : fs::directory_iterator(folder_ / (name + ".checkpoints"))) {
      const std::string checkpoint = each.path().filename();
      if (checkpoint.starts_with("step-")) names.push_back(checkpoint);
    }
    std::ranges::sort(names);
    return names;
  }

  StopSignal stop_;
  fs::path folder_;
  TrainOptions options_;
};

TEST_F(RankRunTest, TrainsToTheLastStepAndWritesItsCheckpoint) {
  const Result<int> code = Run(Options("run"));
  ASSERT_TRUE(code.ok()) << code.error().message;
  EXPECT_EQ(*code, core::kExitSuccess);
  const std::vector<double> losses = Losses("run");
  ASSERT_THAT(losses, SizeIs(8));
  EXPECT_LT(losses.back(), losses.front());
  EXPECT_THAT(Checkpoints("run"), ElementsAre("step-00000008"));
}

TEST_F(RankRunTest, ARunThatResumesMakesTheStepsThatItWouldHaveMade) {
  ASSERT_TRUE(Run(Options("whole")).ok());
  TrainOptions parted = Options("parted");
  parted.job.decay_steps = 8;
  parted.job.steps = 3;
  ASSERT_TRUE(Run(parted).ok());
  EXPECT_THAT(Losses("parted"), SizeIs(3));
  parted.job.steps = 8;
  ASSERT_TRUE(Run(parted).ok());
  EXPECT_THAT(Losses("parted"), ElementsAreArray(Losses("whole")));
  EXPECT_THAT(Checkpoints("parted"), ElementsAre("step-00000003", "step-00000008"));
}

TEST_F(RankRunTest, ARunThatIsToldToStopSavesTheStepAndLeaves) {
  TrainOptions options = Options("run");
  options.job.steps = 100;
  ASSERT_EQ(pthread_kill(pthread_self(), SIGTERM), 0);
  const Result<int> code = Run(options);
  ASSERT_TRUE(code.ok()) << code.error().message;
  EXPECT_EQ(*code, core::kExitStopped);
  EXPECT_THAT(Losses("run"), SizeIs(1));
  EXPECT_THAT(Checkpoints("run"), ElementsAre("step-00000001"));
}

TEST_F(RankRunTest, ALossThatIsNoNumberForLongEndsTheRun) {
  TrainOptions options = Options("run");
  options.job.learning_rate = 1e30;
  options.job.clip = 0;
  options.job.steps = 1000;
  options.max_skipped = 2;
  const Result<int> code = Run(options);
  ASSERT_FALSE(code.ok());
  EXPECT_THAT(code.error().message, HasSubstr("no finite number in 3 steps in a row"));
}

TEST_F(RankRunTest, TwoRanksMakeTheStepsOfOne) {
  ASSERT_TRUE(Run(Options("alone")).ok());
  const Result<uint32_t> port = FindFreePort(static_cast<uint64_t>(getpid()));
  ASSERT_TRUE(port.ok());
  setenv("WORLD_SIZE", "2", 1);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", std::to_string(*port).c_str(), 1);
  const TrainOptions options = Options("both");
  std::array<std::unique_ptr<RankRun>, 2> runs;
  for (size_t rank = 0; rank < runs.size(); ++rank) {
    setenv("RANK", std::to_string(rank).c_str(), 1);
    setenv("LOCAL_RANK", std::to_string(rank).c_str(), 1);
    Result<trainer::Setup> setup = trainer::Setup::Make(options.job, nullptr);
    ASSERT_TRUE(setup.ok()) << setup.error().message;
    Environment environment;
    environment.rank = static_cast<int>(rank);
    runs[rank] = std::make_unique<RankRun>(options, environment, std::move(*setup), stop_, nullptr,
                                           std::nullopt);
  }
  std::array<std::optional<Result<int>>, 2> codes;
  std::thread other([&] { codes[1] = runs[1]->Go(); });
  codes[0] = runs[0]->Go();
  other.join();
  for (const auto& code : codes) {
    ASSERT_TRUE(code->ok()) << code->error().message;
    EXPECT_EQ(**code, core::kExitSuccess);
  }
  EXPECT_THAT(Losses("both"), ElementsAreArray(Losses("alone")));
}

}  // namespace
}  // namespace lockstep::trainer::rank_run_test
