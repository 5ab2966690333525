// ProcessTest: a loop with a ProcessSet and shell scripts as its processes.
#ifndef LOCKSTEP_TESTS_WORKER_AGENT_PROCESSES_PROCESS_TEST_BASE_H_
#define LOCKSTEP_TESTS_WORKER_AGENT_PROCESSES_PROCESS_TEST_BASE_H_

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/process/process.h"
#include "tests/base/loop_test_base.h"
#include "tests/base/shell.h"
#include "worker/agent/processes/descendants.h"
#include "worker/agent/processes/live_table.h"
#include "worker/agent/processes/process_set.h"

namespace lockstep::agent {

class ProcessTest : public LoopTest, protected ProcessSet::Owner {
 protected:
  ProcessTest()
      : spawner_(std::move(*Spawner::Create())),
        table_(std::move(*LiveTable::Create())),
        processes_(loop(), table_.get(), this) {}

  void OnDeath(core::Failure death) override { deaths_.push_back(std::move(death)); }
  void OnGone() override { ++gone_; }
  void OnUnkillable(const std::string& processes) override { unkillable_ = processes; }

  // A child that is left would be the next test's. One that dies leaves its own children to us.
  ~ProcessTest() override {
    do {
      for (const pid_t child : ChildrenOf(getpid())) kill(child, SIGKILL);
    } while (waitpid(-1, nullptr, 0) > 0);
  }

  // Starts the script and, if it says "ready" at some time, returns once it has.
  pid_t Start(int rank, const std::string& script) {
    SpawnResult result = spawner_->Spawn(Shell(script));
    auto& process = std::get<SpawnedProcess>(result);
    outputs_.push_back(std::make_unique<Output>(loop(), std::move(process.stdout_fd)));
    errors_.push_back(std::move(process.stderr_fd));
    EXPECT_TRUE(processes_.Add(rank, process.pid, std::move(process.pidfd)).ok());
    const Output& output = *outputs_.back();
    if (script.find("ready") != std::string::npos) {
      EXPECT_TRUE(RunUntil([&] { return output.text().find("ready") != std::string::npos; }));
    }
    return process.pid;
  }

  // Children that are not zombies.
  static std::vector<pid_t> Living() {
    std::vector<pid_t> children = ChildrenOf(getpid());
    std::erase_if(children, [](pid_t child) {
      siginfo_t info{};
      waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT);
      return info.si_pid == child;
    });
    return children;
  }

  // Nothing is alive; and a little later there are no zombies either.
  void ExpectAllGone() {
    EXPECT_TRUE(Living().empty());
    EXPECT_TRUE(RunUntil([] { return ChildrenOf(getpid()).empty(); }));
  }

  std::unique_ptr<Spawner> spawner_;
  std::unique_ptr<LiveTable> table_;
  std::vector<core::Failure> deaths_;
  int gone_ = 0;
  std::string unkillable_;
  std::vector<std::unique_ptr<Output>> outputs_;
  std::vector<UniqueFd> errors_;  // a shell that finds its stderr closed dies of SIGPIPE
  ProcessSet processes_;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_TESTS_WORKER_AGENT_PROCESSES_PROCESS_TEST_BASE_H_
