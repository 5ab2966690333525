// A whole agent, of a job of one machine, with /bin/sh as its ranks. The guard is this program
// (main_test.cc).
#include "worker/agent/agent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "base/file.h"
#include "base/text/json.h"
#include "core/exit_codes.h"
#include "worker/agent/processes/descendants.h"

namespace lockstep::agent::agent_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class AgentTest : public testing::Test {
 protected:
  AgentTest() {
    std::string pattern = testing::TempDir() + "/agent-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    config_.job_uid = "uid";
    config_.job.metadata.name = "gpt";
    config_.job.spec.num_machines = 1;
    config_.job.spec.processes_per_machine = 2;
    config_.job.spec.preflight.enabled = false;
    config_.job.spec.failure_policy.max_restarts = 0;
    config_.key.emplace().fill(7);
    config_.listen = "127.0.0.1:0";
    config_.coordinator = "127.0.0.1:1";  // machine 0's own is in the process
    config_.advertise = "127.0.0.1";
    config_.run_dir = folder_ / "run";
    config_.termination_path = folder_ / "termination";
  }
  ~AgentTest() override {
    do {
      for (const pid_t child : ChildrenOf(getpid())) kill(child, SIGKILL);
    } while (waitpid(-1, nullptr, 0) > 0);
    fs::remove_all(folder_);
  }

  // The exit code of a job whose ranks run this, in a folder of their own.
  int Run(const std::string& script) {
    config_.job.spec.command = {"/bin/sh", "-c", "cd " + folder_.string() + "; " + script};
    Result<std::unique_ptr<Agent>> agent = Agent::Create(config_, UniqueFd(), "/proc/self/exe");
    EXPECT_TRUE(agent.ok()) << agent.error().message;
    return agent.ok() ? (*agent)->Run() : -1;
  }
  std::string Text(const std::string& name) const {
    const Result<std::string> text = ReadFile(folder_ / name, 1 << 20);
    return text.ok() ? *text : "";
  }
  Json LastMessage() const { return Json::parse(Text("termination"), nullptr, false); }

  fs::path folder_;
  core::AgentConfig config_;
};

TEST_F(AgentTest, AJobWhoseRanksAllExitWith0Succeeds) {
  EXPECT_EQ(Run("echo $RANK of $WORLD_SIZE in $LOCKSTEP_GENERATION > $RANK"), core::kExitSuccess);
  EXPECT_EQ(Text("0"), "0 of 2 in 1-1\n");
  EXPECT_EQ(Text("1"), "1 of 2 in 1-1\n");
  EXPECT_EQ(LastMessage()["verdict"], true);
  EXPECT_EQ(LastMessage()["exitCode"], core::kExitSuccess);
}

TEST_F(AgentTest, ARankThatFailsEndsTheOthersAndIsTheRootCause) {
  EXPECT_EQ(Run("if [ $RANK = 1 ]; then echo no space >&2; exit 7; fi; exec sleep 1000"),
            core::kExitFailed);
  const Json failure = LastMessage()["lastFailure"];
  EXPECT_EQ(failure["cause"], "ProcessExit");
  EXPECT_EQ(failure["rank"], 1);
  EXPECT_EQ(failure["exitCode"], 7);
  EXPECT_THAT(failure["stderr"].get<std::string>(), HasSubstr("no space"));
}

TEST_F(AgentTest, AFailureWithinTheBudgetRestartsAllRanksInTheNextGeneration) {
  config_.job.spec.failure_policy.max_restarts = 1;
  EXPECT_EQ(Run("echo $LOCKSTEP_GENERATION >> $RANK; [ $RANK = 0 ] || [ -e once ] || "
                "{ touch once; exit 7; }; [ $LOCKSTEP_GENERATION = 1-2 ] || exec sleep 1000"),
            core::kExitSuccess);
  EXPECT_THAT(Text("0"), HasSubstr("1-2\n"));
  EXPECT_EQ(Text("1"), "1-1\n1-2\n");
}

TEST_F(AgentTest, ARequestToStopEndsTheRanksAndTheAgent) {
  config_.job.spec.grace_period = minutes(1);
  EXPECT_EQ(Run("trap 'echo asked > asked; exit 0' TERM; [ $RANK = 0 ] || "
                "kill -TERM $PPID; while true; do sleep 0.01; done"),
            core::kExitStopped);
  EXPECT_EQ(Text("asked"), "asked\n");
}

TEST_F(AgentTest, ARunFolderThatCannotBeMadeIsAnError) {
  std::ofstream(folder_ / "file") << "no folder";
  config_.run_dir = folder_ / "file" / "run";
  const Result<std::unique_ptr<Agent>> agent = Agent::Create(config_, UniqueFd(), "/proc/self/exe");
  ASSERT_FALSE(agent.ok());
  EXPECT_THAT(agent.error().message, HasSubstr("file/run"));
}

}  // namespace
}  // namespace lockstep::agent::agent_test
